package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/await"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Do sends a call and waits for its results. What did not run because its shard
// moved is sent again until the deadline.
//
// The stacks of many waiting callers do not fit the processor's cache. So variables for
// sending or failing are on the stack only as long as needed, in functions that are not
// inlined here.
func (p port) Do(ctx context.Context, r *codegen.Ref, method string, args []byte) (reply []byte, err error) {
	c := outCall{Context: ctx, Args: args, Ref: r, Method: method}
	pl := p.kind.plane
	if p.kind.desc.Durable {
		c.Command = newCommand(p, &c)
	}
	turnOf(c.Context).yieldLane()
	limit := await.New(c.Context, c.Ref.Timeout(), pl.cfg.CallTimeout, pl.tr.Load() != nil)
	for try, again := 0, true; again; try++ {
		var w *pending.Call
		var id uint64
		if w, id, err = p.attempt(&c, &limit); err != nil {
			break
		}
		answered := await.Answer(c.Context, &pl.pending, w, id, &limit)
		if answered && w.Result().Code == wire.CodeOK {
			reply = w.Result().Payload
			pl.pending.Free(w, c.Ref.Hash)
			break
		}
		again, err = p.failed(&c, w, id, &limit, answered, try)
	}
	limit.Stop()
	if c.Command != nil {
		err = c.Command.end(pl, err)
	}
	codegen.Recycle(c.Args) // whatever still waits has a copy
	return reply, err
}

// attempt sends the call once. The answer comes to w.
//
//go:noinline
func (p port) attempt(c *outCall, limit *await.Deadline) (w *pending.Call, id uint64, err error) {
	pl, r := p.kind.plane, p.route(c)
	if pl.closed() {
		return nil, 0, p.fail(c.Ref, c.Method, NotExecuted, pl.errClosed())
	}
	left := limit.Micros()
	if limit.Passed() {
		return nil, 0, p.fail(c.Ref, c.Method, NotExecuted, late(context.DeadlineExceeded, errPassed))
	}
	if w, id = pl.pending.Open(limit.Swept(pl.lease.Base()), c.Ref.Hash); w == nil {
		return nil, 0, p.fail(c.Ref, c.Method, NotExecuted, errPending)
	}
	if pl.closed() { // nobody would answer what was opened after the end
		pl.pending.Complete(id, pending.Result{Code: codeClosed})
	}
	e := p.envelope(c, wire.TypeCall)
	e.ID, e.Timeout = id, left
	if c.Command != nil {
		if s, entity := p.enterDurable(c, r); entity != nil {
			s.durable.runHere(entity, c, &e, func() { // runtime.Goexit in the method ends the caller
				await.Abandon(&pl.pending, w, id, c.Ref.Hash)
				_ = c.Command.end(pl, nil)
			})
			return w, id, nil
		}
	}
	if err := r.send(&e); err != nil {
		await.Abandon(&pl.pending, w, id, c.Ref.Hash)
		return nil, 0, p.fail(c.Ref, c.Method, NotExecuted, publicError(err))
	}
	return w, id, nil
}

// failed ends a try that came to no results: the call goes again after a pause, or
// fails with err.
//
//go:noinline
func (p port) failed(c *outCall, w *pending.Call, id uint64, limit *await.Deadline, answered bool, try int) (again bool, err error) {
	pl := p.kind.plane
	if res := *w.Result(); answered && res.Code != pending.Expired && res.Code != codeClosed {
		limit.Seen(w.Over(), pl.lease.Base())
		pl.pending.Free(w, c.Ref.Hash)
		if c.sendsAgain(res.Code) {
			pl.counters.add(callRetried)
			if limit.Sleep(retryPause(try)) {
				return true, nil
			}
			if err := c.Context.Err(); err != nil {
				return false, p.fail(c.Ref, c.Method, NotExecuted, waitError(c.Context, errMoving))
			}
			return false, p.fail(c.Ref, c.Method, NotExecuted, late(context.DeadlineExceeded, errMoving))
		}
		return false, p.resultError(c, res)
	}
	if !answered {
		pl.pending.Coalescer.GaveUp()
	}
	pl.counters.add(callExpired)
	err = context.DeadlineExceeded
	if pl.closed() {
		err = pl.errClosed()
	} else if c.Context.Err() != nil {
		err = c.Context.Err()
	}
	outcome, why := p.giveUp(c, w, id)
	pl.pending.Free(w, c.Ref.Hash)
	return false, p.fail(c.Ref, c.Method, outcome, late(err, why))
}

// retryPause spaces the tries of a call whose shard is on the move.
func retryPause(try int) time.Duration {
	return min(time.Millisecond<<min(try, 6), 50*time.Millisecond)
}

// giveUp takes a call back whose time is over, as far as that can be done, and
// reports whether it ran.
func (p port) giveUp(c *outCall, w *pending.Call, id uint64) (Outcome, error) {
	pl, r := p.kind.plane, p.route(c)
	if r.forget(id) {
		if p.kind.desc.Singleton {
			return NotExecuted, r.noInstance(time.Now())
		}
		if n := pl.ctl.shardsOf(p.kind.desc.Name); n != 0 && n != p.kind.shards {
			return NotExecuted, fmt.Errorf("%w: %d shards here and %d in the cluster (generate both from one version)", ErrMismatch, p.kind.shards, n)
		}
		return NotExecuted, r.waitsFor(time.Now())
	}
	to, seq := w.SentOn()
	way, sent := to.(*peers.Session)
	if !sent {
		if k := p.kind; k.host != nil && k.host.shard(r.shard).Cancel(pl.self.Address, c.Ref.ID, id) {
			return NotExecuted, errBusy
		}
		return Unknown, errNoAnswer
	}
	if way.Void(seq) {
		return NotExecuted, fmt.Errorf("%w: %s could not be reached%s", errOutOfReach, way.Peer().Name, silence(way, time.Now()))
	}
	way.Post(&wire.Envelope{
		Type: wire.TypeCancel, ID: id, Kind: p.kind.name, Shard: r.shard, Entity: nocopy.Bytes(c.Ref.ID),
	})
	return Unknown, fmt.Errorf("%w from %s%s", errNoAnswer, way.Peer().Name, silence(way, time.Now()))
}

// An outCall is one call that goes encoded.
type outCall struct {
	Context context.Context
	Args    []byte // encoded arguments, in a buffer of codegen.NewArgs
	Ref     *codegen.Ref
	Method  string
	Command *sentCommand // of a durable type; nil otherwise
}

// sendsAgain reports whether an answer has the call sent again: it did not run there. One
// with a command may be sent again although it may have run.
func (c *outCall) sendsAgain(code wire.Code) bool {
	switch code {
	case wire.CodeMoved, wire.CodeDropped, wire.CodeStopped:
		return true
	case codeLost, wire.CodeInDoubt:
		if c.Command != nil {
			c.Command.unsure = true
			return true
		}
	case wire.CodeOverloaded:
		return c.Command != nil && c.Command.unsure
	}
	return false
}

// CommandID makes all calls of a reference to an entity of a durable type one command: the
// first is run, and the others get its answer, from whatever process and after whatever
// restart they come. So a request with an id of its own, of a payment for example, is carried
// out once although it was sent again. The shard keeps the answer for 10 minutes after it was
// last asked for. Later the key is new. A call with the same key and another method or other
// arguments fails. A method marked //shard:read, and one that changed nothing, is run each
// time.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = key }
}

// sentCommand is the command of a call to a durable type: the same for each try.
type sentCommand struct {
	id     durablehost.ID
	number uint64 // of this process's commands; 0: it is part of another's command
	unsure bool   // an earlier try may have run
}

// newCommand numbers a call.
func newCommand(p port, c *outCall) *sentCommand {
	if t, ok := c.Context.(*toldContext); ok {
		return &sentCommand{id: t.id}
	}
	if d := durableOf(turnOf(c.Context)); d != nil {
		if id := d.nested(p.kind.desc.Name, c.Ref.ID, c.Method); !id.IsZero() {
			return &sentCommand{id: id}
		}
	}
	if c.Ref.Odd != nil && c.Ref.Odd.Options.CommandID != "" {
		return &sentCommand{id: durablehost.ID{Key: c.Ref.Odd.Options.CommandID}}
	}
	number, floor := p.kind.plane.commands.Begin()
	return &sentCommand{id: durablehost.ID{Number: number, Floor: floor}, number: number}
}

// encoded is the command as it travels now.
func (s *sentCommand) encoded(pl *plane) []byte {
	if s.number != 0 {
		s.id.Floor = pl.commands.Floor()
	}
	return s.id.Append(nil)
}

// end ends a call's command. Where an earlier try may have run, it is not known that
// the call did not.
func (s *sentCommand) end(pl *plane, err error) error {
	if s.number != 0 {
		pl.commands.End(s.number)
	}
	var failed *CallError
	if s.unsure && errors.As(err, &failed) && failed.Outcome == NotExecuted {
		failed.Outcome = Unknown
		failed.Err = fmt.Errorf("%w (an earlier try may have run: ask the entity before calling again)", failed.Err)
	}
	return err
}
