package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// returner sorts what was not acknowledged on a session whose peer is gone.
type returner struct {
	plane   *plane
	session *peers.Session
}

// RouteOf is the route of an envelope.
func (t returner) RouteOf(e *wire.Envelope) *routing.Route {
	if r := t.plane.routeFor(e); r != nil {
		return &r.Route
	}
	return nil
}

// Waits reports whether a caller waits for the answer.
func (t returner) Waits(id uint64) bool { return t.plane.pending.Waits(id) }

// Lost answers a call that may have run, and counts a tell.
func (t returner) Lost(e *wire.Envelope) {
	pl := t.plane
	if e.Type == wire.TypeTell {
		pl.loseTell(Unknown)
	}
	pl.pending.Complete(e.ID, pending.Result{Code: codeLost, Lost: t.session.Peer().Address, Text: t.lostBy()})
}

// Again counts a call that is sent again.
func (t returner) Again(e *wire.Envelope) {
	t.plane.pending.Sent(e.ID, nil, 0)
	t.plane.counters.add(callRetried)
}

// Returned takes back a call that this node had forwarded to a departed peer, after the
// shard has forgotten that peer. certain: it was not handled there. Of other calls nobody
// knows whether they ran, and their senders wait until their deadlines.
func (t returner) Returned(e *wire.Envelope, certain bool) {
	pl, lane := t.plane, t.session.Lane()
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil || k.host == nil {
		return
	}
	s := k.host.shard(e.Shard)
	switch {
	case s == nil:
	case e.Type == wire.TypeFlushed:
		s.Flushed(region.Flush{
			Sender: e.Node, Via: e.Via, Epoch: placement.Epoch(e.Epoch), Hop: placement.Epoch(e.Hop),
		})
	case certain:
		pl.counters.add(callRetried)
		c := pl.newInCall(pl.self, e, lane, time.Now())
		s.Return(&c.Call)
	case e.Type == wire.TypeTell:
		pl.counters.add(tellLost)
	}
}

// lostBy says what became of what the peer did not answer, for people; "" if the peer
// has left.
func (t returner) lostBy() string {
	if t.session.Dropped() {
		return whyDropped
	}
	return ""
}
