package routing

import (
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Sender sorts the envelopes that a peer never acknowledged.
type Sender interface {
	// RouteOf is the route of an envelope's shard; nil if this process knows no such shard.
	RouteOf(e *wire.Envelope) *Route
	// Waits reports whether a caller still waits for the answer to a call.
	Waits(id uint64) bool
	// Returned takes back a call that this process had forwarded for another; certain:
	// the peer did not handle it.
	Returned(e *wire.Envelope, certain bool)
	// Lost notes an ask or a tell of this process that the peer may have run.
	Lost(e *wire.Envelope)
	// Again notes an ask or a tell that certainly did not run, and waits for its next home.
	Again(e *wire.Envelope)
}

// GiveBack sorts the unacknowledged envelopes of a departed peer: this process's own calls go to
// the shards' next homes, in order, if they certainly did not run. stopped are the routes
// that waited for the peer's acknowledgements.
func GiveBack(s Sender, peer transport.Address, left []stream.Unacknowledged, stopped []*Route) {
	byRoute := map[*Route][]stream.Outgoing{}
	var order []*Route
	for i := range left {
		e, certain := &left[i].Envelope, left[i].NotExecuted
		isCall := e.Type == wire.TypeCall || e.Type == wire.TypeTell
		switch {
		case e.Type == wire.TypeFlushed || isCall && e.Relayed():
			s.Returned(e, certain)
			continue
		case !isCall:
			continue // an answer or a step of a move
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
