package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A member whose server has lost it is downed by anyone who can prove that, also by the
// smaller half of the cluster. When the server gave up a process that only stood still,
// the process comes back over a new connection, and learns that it was downed from those
// who did it. If they cannot be reached any more, it cannot know: of two members, each
// would then go on alone, the younger because it has proved the older dead, the older
// because it wins a tie. So a node that may have been proved dead wins no tie until
// another voter counts on it again.

// exposure is what a node knows of those who may have proved it dead.
type exposure struct {
	server string    // to which this node was connected last
	since  time.Time // when it came back to a server that may have lost it
	// to are the members that were at that server, and were not heard over the
	// connection that ended.
	to []transport.Address
}

// noteExposed is called when a connection to a server has been opened, before what was
// heard through the one before is dropped. Nobody can prove this node dead within
// GoneAfter of its last echo, and only members at the server that lost it can.
func (m *Machine) noteExposed(server string) {
	e := &m.downing.exposure
	same, last := server == e.server, m.detect.echoSent
	e.server = server
	if m.config.Downing != splitbrain.DowningBroker || !same || last.IsZero() || m.now.Sub(last) <= m.config.GoneAfter {
		return
	}
	e.since = m.now
	for _, node := range m.voters() {
		if p := m.detect.peers[node]; p != nil && m.sameServer(p) && !gossip.HasAddress(e.to, node) {
			e.to = append(e.to, node)
		}
	}
}

// mayBeDowned reports whether a member may have proved this node dead while no voter has
// counted on this node since.
func (m *Machine) mayBeDowned() bool {
	e := &m.downing.exposure
	if len(e.to) == 0 {
		return false
	}
	for _, node := range m.voters() {
		if p := m.detect.peers[node]; p != nil && !p.vouched.Before(e.since) {
			e.to = nil
			return false
		}
	}
	return true
}
