package downing

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// Any member that has found another gone downs it, even from the smaller half of the cluster. If
// the downed member only stood still, it comes back over a new connection, and learns of the
// decision from the answer Removal. Without a connection to the members that downed it, it does not
// learn this.
//
// Of two members each could then go on alone: the younger because it has found the older gone, the
// older because it wins a tie. So a node that may have been found gone wins no tie until another
// voter counts on it again.

type exposure struct {
	server string    // the server to which this node was connected last
	since  time.Time // when it came back to a server that may have lost it
	// to holds the voters that were connected to server.
	to []transport.Address
}

// An Exposure records which members may have found this node gone.
type Exposure struct {
	*core.Node
	Echo   *detector.Echo
	Peers  *detector.Peers
	Voters *lease.Voters
	known  exposure
}

// NoteExposed records which voters may have found this node gone. It is called when a connection to
// a server has opened, before the evidence from the former connection is dropped. Only members at
// the server that lost this node's connection can have found it gone, and only after GoneAfter
// since its last echo.
func (e *Exposure) NoteExposed(server string) {
	x := &e.known
	same, last := server == x.server, e.Echo.Sent
	x.server = server
	if e.Config.Downing != splitbrain.DowningBroker || !same || last.IsZero() || e.Now.Sub(last) <= e.Config.GoneAfter {
		return
	}
	x.since = e.Now
	for _, node := range e.Voters.Voters() {
		if p := e.Peers.Known[node]; p != nil && e.Peers.SameServer(p) && !gossip.HasAddress(x.to, node) {
			x.to = append(x.to, node)
		}
	}
}

// mayBeDowned reports whether a member may have found this node gone, and no voter has vouched
// for it since.
func (e *Exposure) mayBeDowned() bool {
	x := &e.known
	if len(x.to) == 0 {
		return false
	}
	for _, node := range e.Voters.Voters() {
		if p := e.Peers.Known[node]; p != nil && !p.Vouched.Before(x.since) {
			x.to = nil
			return false
		}
	}
	return true
}
