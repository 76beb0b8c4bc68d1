package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
)

// enterDurable begins a turn of a durable entity for a local caller, whose goroutine is to run
// it. It returns no entity where the call has to queue, or where its home is elsewhere.
func (p port) enterDurable(c *outCall, r *route) (*hostedShard, *region.Entity) {
	k := p.kind
	if !k.desc.Durable || k.host == nil || !k.host.settings.inline {
		return nil, nil
	}
	if up := turnOf(c.Context); up != nil && up.depth >= maxInline {
		return nil, nil
	}
	if e, ok := c.Ref.Near.Load().(*region.Entity); ok && hostedOf(e).tryEnter(e) {
		return hostedOf(e), e
	}
	s := r.local()
	if s == nil {
		return nil, nil
	}
	return s, s.enter(c.Ref)
}

// runHere runs the turn of a local caller, which has begun, on the caller's goroutine. The
// answer comes as that of any other call, when the log has what it saw. exits is called if
// the method ends the goroutine.
func (s *hostedShard) runHere(e *region.Entity, c *outCall, call *wire.Envelope, exits func()) {
	pl := s.plane()
	in := pl.newInCall(pl.self, call, s.lane, time.Now())
	in.caller = c.Context
	returned := false
	defer func() {
		if returned {
			return
		}
		failed := s.panicFailure(e.ID, c.Method, "runtime.Goexit")
		s.endTurnOf(in.turn(), failed)
		exits()
	}()
	a := s.runCall(e, in)
	returned = true
	s.finish(in, a, in.failed(), peers.Pumps{})
}
