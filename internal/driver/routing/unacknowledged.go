package routing

import (
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Sender is the process whose peer has left envelopes unacknowledged. GiveBack passes the
// Sender's calls, if still needed, to Lost or Again.
type Sender interface {
	// RouteOf returns the route of an envelope's shard; nil if this process knows no such shard.
	RouteOf(e *wire.Envelope) *Route
	// Waits reports whether a caller still waits for the answer to the call with that number.
	Waits(id uint64) bool
	// Lost handles an ask or a tell of this process that the peer may have run.
	Lost(e *wire.Envelope)
	// Again handles an ask or a tell of this process that certainly did not run. It waits for the
	// shard's next home.
	Again(e *wire.Envelope)
}

// GiveBack sorts a departed peer's unacknowledged envelopes. This process's calls that certainly
// did not run go to their shards' next homes, in order. stopped are the routes that waited for the
// peer's acknowledgements.
func GiveBack(s Sender, peer transport.Address, left []stream.Unacknowledged, stopped []*Route) {
	byRoute := map[*Route][]stream.Outgoing{}
	var order []*Route
	for i := range left {
		e, certain := &left[i].Envelope, left[i].NotExecuted
		isCall := e.Type == wire.TypeCall || e.Type == wire.TypeTell
		switch {
		case !isCall || e.Relayed():
			continue // of a move, or of another process's call
		case e.Type == wire.TypeCall && !s.Waits(e.ID):
			continue
		case !certain:
			s.Lost(e)
			continue
		}
		r := s.RouteOf(e)
		if r == nil {
			continue
		}
		if byRoute[r] == nil {
			order = append(order, r)
		}
		s.Again(e)
		byRoute[r] = append(byRoute[r], stream.Outgoing{Envelope: *e})
	}
	for _, r := range order {
		r.HomeDeparted(peer, byRoute[r])
	}
	for _, r := range stopped {
		if byRoute[r] == nil {
			r.HomeDeparted(peer, nil)
		}
	}
}
