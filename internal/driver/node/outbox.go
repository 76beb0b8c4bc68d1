package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// storedTellPatience bounds one attempt to deliver a durable entity's stored tell, with the
// receiver's turn and commit. It is the deadline of that turn.
const storedTellPatience = time.Minute

// An outbox sends the tells in the logs of this process's shards. One goroutine sends tells and
// handles their answers, so that tells share frames and no goroutine is woken for each tell. If the
// first attempt of a tell fails, a goroutine of its own sends that tell again.
type outbox struct {
	driver *Driver

	mu      sync.Mutex
	queue   []*sending // not sent yet
	ended   []*sending // answered
	running bool       // the goroutine of run is running
}

// A batch has tells that one sender, a shard or a feed, sends together.
type batch struct {
	box     *outbox
	ctx     context.Context
	from    string                                 // the sender, for logs
	shard   store.Shard                            // the sender; zero if it is a feed
	id      func(tell durable.Tell) durablehost.ID // returns the command ID of a tell
	then    func(tells []durable.Tell, r feed.Result, why error)
	arrived []durable.Tell // committed tells not passed to then yet; used only by run
}

// A sending is a stored tell that is being sent.
type sending struct {
	*batch
	tell durable.Tell
	call *calls.Call
	hint uint64 // of the call
}

// Completed makes the outbox handle the answer.
func (s *sending) Completed(*calls.Call) {
	o := s.box
	o.mu.Lock()
	o.ended = append(o.ended, s)
	o.wakeUnlock()
}

// sendTells implements Tell of durablehost.Host: it sends tells stored in the log of shard from.
// The callback (then) gets each tell with arrived, which is true if the receiver has committed the
// tell or will never run it.
func (drv *Driver) sendTells(ctx context.Context, from store.Shard, tells []durable.Tell, then func(tells []durable.Tell, arrived bool)) {
	b := &batch{
		ctx: ctx, from: from.String(), shard: from,
		id: func(tell durable.Tell) durablehost.ID { return durablehost.TellID(from, tell) },
		then: func(tells []durable.Tell, r feed.Result, _ error) {
			then(tells, r == feed.Committed || r == feed.Finished)
		},
	}
	b.send(drv, from.Number, tells)
}

// send sends the batch's tells through one of the process's outboxes. Equal numbers select the same
// outbox.
func (b *batch) send(drv *Driver, number int, tells []durable.Tell) {
	o := &drv.outboxes[number%len(drv.outboxes)]
	b.box = o
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
			r, why := s.end()
			switch r {
			case 0:
				s.again()
				continue
			case feed.Committed:
			default:
				s.then([]durable.Tell{s.tell}, r, why)
				continue
			}
			if len(s.arrived) == 0 {
				batches = append(batches, s.batch)
			}
			s.arrived = append(s.arrived, s.tell)
		}
		for i, b := range batches {
			b.then(b.arrived, feed.Committed, nil)
			b.arrived, batches[i] = b.arrived[:0], nil
		}
		batches = batches[:0]
		for i, s := range queue {
			queue[i] = nil
			if s.tell.Target.Log == durable.Published || !s.begin() {
				s.again()
			}
		}
	}
}

// begin sends a tell as a call. It reports false if the tell cannot be sent.
func (s *sending) begin() bool {
	drv := s.box.driver
	body, err := durablehost.ReadBody(s.tell.Body)
	k := (*drv.Kinds.Load())[s.tell.Target.Log]
	if err != nil || k == nil || s.ctx.Err() != nil {
		return false
	}
	r := k.Route(s.tell.Target.Shard)
	info, err := toldInfo(body.Info)
	if r == nil || err != nil {
		return false
	}
	s.hint = uint64(s.tell.Target.Shard)
	var id uint64
	if s.call, id = drv.Pending.OpenFor(-int64(storedTellPatience), s.hint, s); s.call == nil {
		return false
	}
	command := s.id(s.tell)
	e := wire.Envelope{
		Type: wire.TypeCall, Kind: k.name, Shard: r.shard, Entity: wire.BytesOf(s.tell.Entity), Method: wire.BytesOf(body.Method), Payload: body.Args,
		ID: id, Timeout: uint64(storedTellPatience / time.Microsecond), Info: info, Command: command.Append(nil),
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

// plainTold is the encoded info of a tell that has no other info.
var plainTold = (&wire.Info{Told: true}).Append(nil)

// toldInfo adds to an encoded info that the call is a tell.
func toldInfo(encoded []byte) ([]byte, error) {
	if len(encoded) == 0 {
		return plainTold, nil
	}
	info, err := wire.ParseInfo(encoded)
	info.Told = true
	return info.Append(nil), err
}

// end handles the answer to a tell. A result of 0 means that the answer decides nothing, so the
// tell is sent again at once. why is the error of a tell that failed or must wait.
func (s *sending) end() (result feed.Result, why error) {
	drv := s.box.driver
	r := drv.Pending.End(s.call, s.hint)
	k := (*drv.Kinds.Load())[s.tell.Target.Log]
	switch r.Code {
	case wire.CodeCanceled:
		return feed.Finished, nil // it is below the receiver's floor: it has run before
	case wire.CodePanic:
		if k == nil || !k.Desc.Durable {
			return feed.Committed, nil
		}
		result = feed.Failed // its changes were dropped, so it runs again
	case wire.CodeBadArgs, wire.CodeRefused, wire.CodeIntercepted, wire.CodeCommitLarge:
		result = feed.Failed
	case wire.CodeReused:
		result = feed.Mismatch
	case wire.CodeOverloaded:
		result = feed.Unanswered
	default:
		if r.Code.Executed() {
			return feed.Committed, nil
		}
		return 0, nil
	}
	if why = notRun(s.tell.Target.Log, r, 0); why == nil {
		why = errors.New(r.Text)
	}
	body, _ := durablehost.ReadBody(s.tell.Body)
	s.box.waits(s.from, s.tell, body.Method, why)
	return result, why
}

// again starts a goroutine that sends the tell or, if the tell is a message for a stream, publishes
// it.
func (s *sending) again() {
	s.box.driver.Group.Go(func() {
		if s.tell.Target.Log == durable.Published {
			r := feed.Unanswered
			if s.box.driver.publishStored(s.ctx, s.shard, s.tell) {
				r = feed.Committed
			}
			s.then([]durable.Tell{s.tell}, r, nil)
			return
		}
		r, why := s.retry()
		s.then([]durable.Tell{s.tell}, r, why)
	})
}

// retry sends a stored tell to its receiver until storedTellPatience has passed.
func (s *sending) retry() (r feed.Result, why error) {
	r = feed.Unanswered
	body, why := durablehost.ReadBody(s.tell.Body)
	if why == nil {
		r, why = s.box.call(s.ctx, s.tell, s.id(s.tell), body)
	}
	if r != feed.Committed && r != feed.Finished && s.ctx.Err() == nil {
		s.box.waits(s.from, s.tell, body.Method, why)
	}
	return r, why
}

// waits counts and logs a tell that must be sent again later.
func (o *outbox) waits(from string, tell durable.Tell, method string, err error) {
	drv := o.driver
	drv.Counts.Add(callRetried)
	drv.Limiter.Warn(drv.Logger, "tell of a durable entity waits; it is sent again", tell.Target.Log, method, "from", from,
		"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", method, "err", err)
}

// errNoClient means that this program has no client of the tell's type.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// call delivers a stored tell by an ask, so that the outbox learns that the tell has run.
func (o *outbox) call(ctx context.Context, tell durable.Tell, id durablehost.ID, body durablehost.Body) (r feed.Result, err error) {
	k := (*o.driver.Kinds.Load())[tell.Target.Log]
	if k == nil {
		return feed.Unanswered, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	info, err := wire.ParseInfo(body.Info)
	if err != nil {
		return feed.Unanswered, err
	}
	info.Told = true
	within = WithOutgoing(within, info)
	p := invoker{k} // its interceptors have seen the tell already
	ref := codegen.NewRef(p, tell.Entity, nil)
	if err := p.Check(within, ref, body.Method); err != nil {
		return feed.Unanswered, err
	}
	_, err = p.Do(&toldContext{within, id}, ref, body.Method, append(codegen.NewArgs(), body.Args...))
	failed, _ := o.driver.Config.ReadCallError(err)
	switch {
	case failed.Panic && k.Desc.Durable:
		return feed.Failed, err // its changes were dropped, so it runs again
	case failed.Panic, err == nil, failed.Outcome == calls.Executed:
		return feed.Committed, err
	case errors.Is(err, ErrTooLarge):
		return feed.Failed, err // only a home in this process could take it
	case errors.Is(err, ErrCommandReused):
		return feed.Mismatch, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return feed.Finished, err // it is below the receiver's floor: it has run before
	}
	return feed.Unanswered, err
}

// tellGivenUp logs a tell that was not committed in time and is not sent again.
func (drv *Driver) tellGivenUp(from store.Shard, tell durable.Tell) {
	drv.Counts.Add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	if tell.Target.Log == durable.Published {
		drv.Logger.Error("dead letter: a message of a durable entity was given up, because no stream has stored it in time",
			"from", from.String(), "entity", clip(tell.Entity), "subject", body.Method, "number", tell.Number)
		return
	}
	attrs := []any{"from", from.String(), "kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number}
	if err != nil {
		attrs = append(attrs, "err", err) // why its method is not known
	}
	drv.Logger.Error("dead letter: a tell of a durable entity was given up, because its receiver has not run it in time", attrs...)
}
