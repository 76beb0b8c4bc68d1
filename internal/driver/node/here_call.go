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

// A hereCall is a call to a durable entity whose turn runs on its caller's goroutine. It has
// everything for such a call in one piece of memory, reused by later calls.
type hereCall struct {
	InCall
	shard   *HostedShard
	ctx     context.Context // the caller's
	depth   int32           // number of turns on this goroutine that wait for the call
	command *durablehost.ID // valid until the turn has ended
	hidden  bool            // its method does not name its context: see newTurn
	turn    durableTurn     // of a hidden call
	held    answer          // waits for the log
	results []byte          // of held: the part of the answer in the log
}

var hereCalls = sync.Pool{New: func() any { return new(hereCall) }}

// newHereCall returns a call by the turn up, with that number among the pending calls; up is nil
// outside turns.
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
	if len(s.Host.Settings.Intercept) > 0 {
		h.arrived = time.Now()
	}
	return h
}

// newTurn returns memory for the turn of a call; h is nil if that runs on another goroutine than
// its caller's. A method may keep its context, and with it the turn, unless it does not name it.
func (h *hereCall) newTurn() *durableTurn {
	if h != nil && h.hidden {
		return &h.turn
	}
	return new(durableTurn)
}

// share returns the answer with the results as they are in the log's answer, kept, and has their buffer
// used again. h is nil for a call from another goroutine, whose session copies the results.
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

// end ends the turn of the call, and answers the caller when the log has everything that the turn saw.
// If the tenure ends before that, the caller sends the command to the next home. A process that
// leaves waits until driver.answering is 0.
func (h *hereCall) end(e *region.Entity, a answer) {
	h.shard.driver().answering.Add(1)
	h.shard.endTurnOf(e, h.after(), h.failed)
	r := a.after
	a.after = nil
	if h.held = a; r == nil || r.mayLeave() {
		h.Logged(nil)
	} else {
		r.tenure.Answer(r.ticket, h)
	}
}

// Logged sends the answer that was held.
func (h *hereCall) Logged(err error) {
	drv, a := h.shard.driver(), h.held
	defer drv.answering.Add(-1)
	if err != nil {
		a = inDoubt(err)
	}
	h.answer(drv, a, peers.Pumps{})
}

// recycle makes the memory available for later calls, unless something awaited by its turn may
// still have it.
func (h *hereCall) recycle() {
	if h.hidden && !h.turn.swift {
		return
	}
	*h = hereCall{}
	hereCalls.Put(h)
}
