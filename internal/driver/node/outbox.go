package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// storedTellPatience bounds one attempt to deliver a durable entity's stored tell, until the
// receiver has committed its turn. It is the deadline of the receiver's turn.
const storedTellPatience = time.Minute

// An outbox sends tells that are stored in the logs of this process's shards. One goroutine sends
// them and handles their answers, so that tells share frames and nobody is woken for each. A tell
// whose first attempt does not succeed is sent again by a goroutine of its own.
type outbox struct {
	driver *Driver

	mu      sync.Mutex
	queue   []*sending // not sent yet
	ended   []*sending // answered
	running bool       // the goroutine of run is running
}

// A batch has tells that one shard has sent together.
type batch struct {
	box     *outbox
	ctx     context.Context
	from    store.Shard
	then    func(tells []durable.Tell, arrived bool)
	arrived []durable.Tell // whose end then does not know yet; used only by run
}

// A sending is a stored tell that is being sent.
type sending struct {
	*batch
	tell durable.Tell
	call *calls.Call
	hint uint64 // of the call
}

// Completed has the outbox handle the answer.
func (s *sending) Completed(*calls.Call) {
	o := s.box
	o.mu.Lock()
	o.ended = append(o.ended, s)
	o.wakeUnlock()
}

// sendTells implements durablehost.Host.Tell.
func (drv *Driver) sendTells(ctx context.Context, from store.Shard, tells []durable.Tell, then func(tells []durable.Tell, arrived bool)) {
	o := &drv.outboxes[from.Number%len(drv.outboxes)]
	b := &batch{box: o, ctx: ctx, from: from, then: then}
	all := make([]sending, len(tells))
	o.mu.Lock()
	for i := range all {
		all[i].batch, all[i].tell = b, tells[i]
		o.queue = append(o.queue, &all[i])
	}
	o.wakeUnlock()
}

// wakeUnlock starts run if it is not running. It unlocks o.
func (o *outbox) wakeUnlock() {
	start := !o.running
	o.running = true
	o.mu.Unlock()
	if start {
		o.driver.Group.Go(o.run)
	}
}

// run sends what is queued and handles answers, until there is nothing left to do.
func (o *outbox) run() {
	var queue, ended []*sending
	var batches []*batch // with tells in arrived
	for {
		o.mu.Lock()
		queue, o.queue = o.queue, queue[:0]
		ended, o.ended = o.ended, ended[:0]
		o.running = len(queue)+len(ended) > 0
		o.mu.Unlock()
		if len(queue)+len(ended) == 0 {
			return
		}
		for i, s := range ended {
			ended[i] = nil
			arrived, known := s.end()
			if !known {
				s.again()
				continue
			}
			if !arrived {
				s.then([]durable.Tell{s.tell}, false)
				continue
			}
			if len(s.arrived) == 0 {
				batches = append(batches, s.batch)
			}
			s.arrived = append(s.arrived, s.tell)
		}
		for i, b := range batches {
			b.then(b.arrived, true)
			b.arrived, batches[i] = b.arrived[:0], nil
		}
		batches = batches[:0]
		for i, s := range queue {
			queue[i] = nil
			if !s.begin() {
				s.again()
			}
		}
	}
}

// begin sends a tell as a call. It reports false if it cannot.
func (s *sending) begin() bool {
	drv := s.box.driver
	body, err := durablehost.ReadBody(s.tell.Body)
	k := (*drv.Kinds.Load())[s.tell.Target.Log]
	if err != nil || k == nil || s.ctx.Err() != nil {
		return false
	}
	r := k.Route(s.tell.Target.Shard)
	info, err := wire.ParseInfo(body.Info)
	if r == nil || err != nil {
		return false
	}
	info.Told = true
	s.hint = uint64(s.tell.Target.Shard)
	var id uint64
	if s.call, id = drv.Pending.OpenFor(-int64(storedTellPatience), s.hint, s); s.call == nil {
		return false
	}
	command := durablehost.TellID(s.from, s.tell)
	e := wire.Envelope{
		Type: wire.TypeCall, Kind: k.name, Shard: r.shard, Entity: wire.BytesOf(s.tell.Entity), Method: wire.BytesOf(body.Method), Payload: body.Args,
		ID: id, Timeout: uint64(storedTellPatience / time.Microsecond), Info: info.Append(nil), Command: command.Append(nil),
	}
	if r.sendBy(&e, peers.Pumped) == nil {
		return true
	}
	if drv.Pending.Remove(id) == nil {
		return true // it has ended, and Completed was called
	}
	drv.Pending.Coalescer.GaveUp()
	drv.Pending.Free(s.call, s.hint)
	return false
}

// end handles the answer to a tell. If the answer decides nothing, known is false, and the tell is
// sent again at once.
func (s *sending) end() (arrived, known bool) {
	drv := s.box.driver
	r := drv.Pending.End(s.call, s.hint)
	if r.Code != wire.CodePanic {
		return r.Code.Executed(), r.Code.Executed()
	}
	k := (*drv.Kinds.Load())[s.tell.Target.Log]
	if arrived = k != nil && !k.Desc.Durable; !arrived { // its changes were dropped, so it runs again
		body, _ := durablehost.ReadBody(s.tell.Body)
		s.box.waits(s.from, s.tell, body.Method, errors.New(r.Text))
	}
	return arrived, true
}

// again sends a tell on a goroutine of its own.
func (s *sending) again() {
	s.box.driver.Group.Go(func() {
		arrived := s.box.retry(s.ctx, s.from, s.tell)
		s.then([]durable.Tell{s.tell}, arrived)
	})
}

// retry sends a stored tell to its receiver. It reports whether the receiver has run the tell and,
// if the receiver is durable, committed the turn.
func (o *outbox) retry(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool) {
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		arrived, err = o.call(ctx, from, tell, body)
	}
	if !arrived && ctx.Err() == nil {
		o.waits(from, tell, body.Method, err)
	}
	return arrived
}

// waits counts and logs a tell, which is sent again later.
func (o *outbox) waits(from store.Shard, tell durable.Tell, method string, err error) {
	drv := o.driver
	drv.Counts.Add(callRetried)
	drv.Limiter.Warn(drv.Logger, "tell of a durable entity waits; it is sent again", tell.Target.Log, method, "from", from.String(),
		"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", method, "err", err)
}

// errNoClient means that this program has no client of the tell's type.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// call makes the call that delivers a stored tell. It is an ask, so that the sender learns that the
// tell has run.
func (o *outbox) call(ctx context.Context, from store.Shard, tell durable.Tell, body durablehost.Body) (arrived bool, err error) {
	k := (*o.driver.Kinds.Load())[tell.Target.Log]
	if k == nil {
		return false, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	info, err := wire.ParseInfo(body.Info)
	if err != nil {
		return false, err
	}
	info.Told = true
	within = WithOutgoing(within, info)
	p := invoker{k} // its interceptors have seen the tell already
	ref := codegen.NewRef(p, tell.Entity, nil)
	if err := p.Check(within, ref, body.Method); err != nil {
		return false, err
	}
	as := &toldContext{within, durablehost.TellID(from, tell)}
	_, err = p.Do(as, ref, body.Method, append(codegen.NewArgs(), body.Args...))
	failed, _ := o.driver.Config.ReadCallError(err)
	switch {
	case failed.Panic:
		return !k.Desc.Durable, err // its changes were dropped, so it runs again
	case err == nil, failed.Outcome == calls.Executed:
		return true, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return true, err // it is below the receiver's floor: it has run before
	}
	return false, err
}

// tellGivenUp logs a tell that was not committed in time and is not sent again.
func (drv *Driver) tellGivenUp(from store.Shard, tell durable.Tell) {
	drv.Counts.Add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	attrs := []any{"from", from.String(), "kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number}
	if err != nil {
		attrs = append(attrs, "err", err) // why its method is not known
	}
	drv.Logger.Error("dead letter: a tell of a durable entity was given up, because its receiver has not run it in time", attrs...)
}
