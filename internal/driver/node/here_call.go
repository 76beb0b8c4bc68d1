package node

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
)

// A hereCall is a call to a durable entity on its caller's goroutine, with all memory for the call.
type hereCall struct {
	InCall
	shard   *HostedShard
	ctx     context.Context // the caller's context
	depth   int32           // number of turns on this goroutine that wait for the call
	command *durablehost.ID // the call's command, valid until the turn has ended
	hidden  bool            // the method does not name its context: see newTurn
	turn    durableTurn     // used if hidden is set
	held    answer          // the answer, while it waits for the log
	waits   int64           // since when the answer waits for the log; 0 means it does not
	results []byte          // the results of held, in the memory of the logged answer
}

var hereCalls = sync.Pool{New: func() any { return new(hereCall) }}

// newHereCall returns a call to s. up is the turn that makes the call, or nil. id is the call's
// number among the pending calls.
func newHereCall(s *HostedShard, c *outCall, up *turn, id uint64, left time.Duration) *hereCall {
	drv, h := s.driver(), hereCalls.Get().(*hereCall)
	h.here, h.Driver, h.lane, h.shard = h, &h.InCall, s.lane, s
	h.ctx, h.command = c.Context, c.Command.next(&drv.commands)
	h.ID, h.Entity, h.Method, h.Args, h.Sender = id, c.Ref.ID, wire.BytesOf(c.Method), c.Args, drv.Local
	h.began = drv.Lease.Now()
	h.Deadline = h.began + int64(left)
	if up != nil {
		h.Links, h.depth = up.appendChain(nil), up.depth+1
		h.Chain = shardhost.Chain(h.Links)
	}
	if o := outgoingOf(c.Context); o != nil {
		h.Info = o.encoded
	}
	if len(s.Host.Settings.Intercept) > 0 || len(h.Info) > 0 {
		h.arrived = time.Now()
	}
	return h
}

// newTurn returns memory for a turn. It reuses the turn in h only if the method does not name its
// context. Otherwise the method may keep the context, and with it the turn.
func (h *hereCall) newTurn() *durableTurn {
	if h != nil && h.hidden {
		return &h.turn
	}
	return new(durableTurn)
}

// share makes the answer use the results in kept, which is the answer encoded for the log. h is nil
// for a call from another goroutine.
func (h *hereCall) share(a answer, kept []byte) answer {
	if h == nil || a.code != wire.CodeOK || a.payload == nil || len(*a.payload) > len(kept) {
		return a
	}
	h.results = []byte{}
	if n := len(*a.payload); n > 0 {
		h.results = kept[len(kept)-n:]
	}
	a.sent()
	a.payload = &h.results
	return a
}

// end ends the turn, and answers the caller once everything that the turn saw is in the log. If the
// tenure ends first, the caller sends the command to the next home. Until the caller is answered,
// Driver.answering counts the call.
func (h *hereCall) end(e *region.Entity, a answer) {
	h.shard.driver().answering.Add(1)
	h.shard.endTurnOf(e, h.after(), h.failed)
	r := a.after
	a.after = nil
	if h.held = a; r == nil || r.mayLeave() {
		h.Logged(nil)
	} else {
		h.waits = h.shard.driver().Lease.Now()
		r.tenure.Answer(r.ticket, h)
	}
}

// Logged sends the held answer or, if err is not nil, the answer that the outcome is in doubt.
func (h *hereCall) Logged(err error) {
	drv, a := h.shard.driver(), h.held
	defer drv.answering.Add(-1)
	if h.waits != 0 {
		h.shard.committed(wire.StringOf(h.Method), h.waits)
	}
	if err != nil {
		a = inDoubt(err)
	}
	h.answer(drv, a, peers.Pumps{})
}

// recycle frees the memory, unless something that the turn waited for may still refer to it.
func (h *hereCall) recycle() {
	if h.hidden && !h.turn.swift {
		return
	}
	*h = hereCall{}
	hereCalls.Put(h)
}
