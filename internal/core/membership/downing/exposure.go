package downing

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
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

// An Exposure records whether members may have found this node gone.
type Exposure struct {
	*core.Node
	Echo   *detector.Echo
	Peers  *detector.Peers
	Voters *lease.Voters
	server string    // to which this node was connected last
	since  time.Time // when this node connected again; zero unless members may have found it gone before that
}

// NoteExposed records whether voters may have found this node gone. It is called when a connection
// to a server has opened, before the evidence from the former connection is dropped. Only voters at
// the former server can have found this node gone. If this node is at the same server again, that
// takes at least GoneAfter from its last returned echo. If it is at another server, they may do so
// later, because their server may not reach the new one. moved reports whether this node is at
// another server than before.
func (e *Exposure) NoteExposed(server string) (moved bool) {
	same, last := server == e.server, e.Echo.Sent
	moved = e.server != "" && !same && !e.Conn.Alone
	e.server = server
	if e.Config.Downing != splitbrain.DowningBroker || last.IsZero() || !moved && !(same && e.Now.Sub(last) > e.Config.GoneAfter) {
		return moved
	}
	if slices.ContainsFunc(e.Voters.Voters(), e.Peers.WasMate) {
		e.since = e.Now
	}
	return moved
}

// mayBeDowned reports whether a member may have found this node gone, and no voter has vouched
// for this node since.
func (e *Exposure) mayBeDowned() bool {
	vouched := func(node transport.Address) bool {
		p := e.Peers.Known[node]
		return p != nil && !p.Vouched.Before(e.since)
	}
	if !e.since.IsZero() && slices.ContainsFunc(e.Voters.Voters(), vouched) {
		e.since = time.Time{}
	}
	return !e.since.IsZero()
}
