package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// durableTurn is a turn of a durable type's entity. It runs its call under the shard's tenure and
// commits the changes.
type durableTurn struct {
	remoteTurn
	tenure  *durablehost.Tenure
	read    bool            // its method changes nothing
	command durable.Command // the zero Command: none
	ticket  durable.Ticket  // the answer waits for it
	seen    durable.Ticket  // calls that the turn makes wait for it
	caller  context.Context // if the turn runs on its caller's goroutine, whose end ends the turn's context; otherwise nil
	swift   bool            // it has waited for nothing and run no hook, so nothing else refers to it

	mu    sync.Mutex
	wakes bool // OnActivate runs
	calls durable.Calls
	tells durableTells
}

// durableOf returns t as a turn of a durable type, or nil if it is none.
func durableOf(t *turn) *durableTurn {
	if t == nil {
		return nil
	}
	r, _ := t.parent.(*durableTurn)
	return r
}

// base returns the context of the caller whose goroutine the turn runs on, or the process's.
func (r *durableTurn) base() context.Context {
	if r.caller != nil {
		return r.caller
	}
	return r.remoteTurn.base()
}

// mayLeave reports whether the answer may leave at once.
func (r *durableTurn) mayLeave() bool { return r.tenure.Reached(r.ticket) }

// answer sends an answer when everything that the turn saw is in the log. If the tenure ends
// before that, the caller of a command sends it to the next home; the outcome of any other call
// is Unknown.
func (r *durableTurn) answer(drv *driver, c *inCall, a answer) {
	a.after = nil
	drv.answering.Add(1)
	do := func(err error) {
		defer drv.answering.Add(-1)
		if err != nil {
			a = inDoubt(err)
		}
		c.answer(drv, a, peers.Pumps{})
	}
	if c.hasCommand() {
		r.tenure.Answer(r.ticket, do) // its caller asks again
	} else {
		r.tenure.Then(r.ticket, do)
	}
}

// inDoubt is the answer to a call whose changes may or may not be in the log.
func inDoubt(err error) answer { return answer{code: wire.CodeInDoubt, text: err.Error()} }

// before waits until everything that the turn saw is in the log, because something is
// about to leave the turn.
func (r *durableTurn) before(ctx context.Context) error {
	if r.tenure == nil || r.tenure.Reached(r.seen) { // nil: it is an interceptor's call
		return nil
	}
	r.turn.yieldLane()
	return r.tenure.Wait(ctx, r.seen)
}

// activating notes that OnActivate runs, until end is called.
func (r *durableTurn) activating() (end func()) {
	set := func(on bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wakes = on
	}
	set(true)
	return func() { set(false) }
}

// nested is the command of a call that the turn makes; it is zero if the turn has no
// command. Calls of OnActivate are not the command's: when the command runs again, OnActivate
// may not.
func (r *durableTurn) nested(kind, entity, method string) durablehost.ID {
	if r.command.Number == 0 {
		return durablehost.ID{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wakes {
		return durablehost.ID{}
	}
	id := r.turn.shard().ID
	return durablehost.Nested(r.command, durable.Target{Log: id.Kind, Shard: id.Shard}, &r.calls, kind, entity, method)
}

// runCall runs an encoded call on an entity of a durable type, and commits its changes.
func (r *durableTurn) runCall(e *region.Entity, c *inCall, method codegen.Method) answer {
	s, t := r.turn.shard(), &r.turn
	d := s.durable
	tenure := d.Current()
	swift := tenure != nil
	if tenure == nil {
		t.yieldLane()
		ctx, cancel := d.patience(t)
		defer cancel()
		var err error
		if tenure, err = d.Tenure(ctx); err != nil {
			if d.Outgrown() { // a coordinator that began anew knows no home yet
				s.driver().ctl.ask(s.ID.Kind)
			}
			return notOpen(err)
		}
	}
	r.tenure = tenure
	r.read = s.host.reads.has(r.turn.method)
	if c.hasCommand() && !r.read {
		if a, ok := r.admit(e, c); !ok {
			return a
		}
	}
	settled := false
	defer func() { // also when the method ends this goroutine
		if !settled {
			r.discard()
			s.host.lost(e)
			e.Clear()
		}
	}()
	if why := d.strayed(e, tenure); why != "" {
		settled = true
		s.host.died(why)
		r.discard()
		return answer{code: wire.CodeDropped} // the next instance takes the call
	}
	active := d.ready(e, tenure)
	if active == nil {
		swift = false
		var err error
		active, err = d.activate(t, e, tenure)
		settled = err != nil || settled
		if err != nil {
			r.discard()
			if errors.Is(err, errActivate) {
				return notActivated(s, e, c, err)
			}
			return notOpen(err)
		}
	}
	if !swift { // the store or the hook may have taken long
		if a, ok := s.leased(t); !ok {
			settled = true
			r.discard()
			r.unwoken(e, active)
			return a
		}
	}
	if r.command.Key != "" {
		if v := tenure.Keyed(e.ID, r.command); v.Verdict != durable.Run {
			settled = true
			r.discard()
			r.unwoken(e, active)
			return r.decided(v)
		}
	}
	r.seen = active.last
	a := runMethod(s, &r.encodedTurn, e, c, method)
	a = r.settle(e, c.here, active, a, r.read && !active.woken)
	settled, r.swift = true, swift
	return a
}

// notOpen is the answer to a call for which the shard's tenure cannot be obtained.
func notOpen(err error) answer {
	switch {
	case errors.Is(err, durablehost.ErrNotHere):
		return answer{code: wire.CodeDropped} // its caller looks for its home
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return answer{code: wire.CodeExpired, text: err.Error()}
	}
	return answer{code: wire.CodeRefused, text: err.Error()}
}

// admit checks the call's command, and reports whether the method is to run.
func (r *durableTurn) admit(e *region.Entity, c *inCall) (a answer, run bool) {
	var id *durablehost.ID
	if c.here != nil {
		id = c.here.command
	} else {
		read, err := durablehost.ReadID(c.Command)
		if err != nil {
			return answer{code: wire.CodeBadArgs, text: err.Error()}, false
		}
		id = &read
	}
	if id.IsZero() {
		return a, true
	}
	if c.Sender.Client { // clients number their own commands
		id.Source, id.Log, id.To = 0, durable.Target{}, durable.Target{}
	}
	r.command = id.Command(c.Sender.Incarnation, e.ID, wire.StringOf(c.Method), c.Args)
	v := r.tenure.Admit(r.command)
	if v.Verdict == durable.Run {
		return a, true
	}
	r.command = durable.Command{}
	return r.decided(v), false
}

// decided is the answer to a command that is not run.
func (r *durableTurn) decided(v durable.Admission) answer {
	switch v.Verdict {
	case durable.Replay:
		kept, err := durablehost.ReadAnswer(v.Answer)
		if err != nil {
			return answer{code: wire.CodeRefused, text: err.Error()}
		}
		r.ticket = v.Ticket
		payload := append([]byte{}, kept.Payload...) // because buffers of answers are reused and must not be nil
		return answer{code: wire.Code(kept.Code), text: kept.Text, payload: &payload, after: r}
	case durable.BelowFloor:
		return answer{code: wire.CodeCanceled, text: "its caller no longer waits for it"}
	case durable.Mismatch:
		return answer{code: wire.CodeRefused, text: fmt.Sprintf(
			"another call of %s has its command id (a key of shard.CommandID names one call with its arguments; a turn that runs again must make the calls that it made before)", r.turn.shard().ID.Kind)}
	case durable.Overloaded:
		return answer{code: wire.CodeOverloaded, text: fmt.Sprintf(
			"shard %v has too many bytes that are not in the store yet, or too many commands whose callers have not finished (retry later)", r.turn.shard().ID)}
	}
	return answer{code: wire.CodeDropped}
}

// discard forgets the turn's command, which commits nothing.
func (r *durableTurn) discard() {
	if r.command.Number != 0 {
		r.tenure.Discard(r.command)
	}
}

// settle commits the changes of a turn, if there are any. The answer waits for the log.
func (r *durableTurn) settle(e *region.Entity, here *hereCall, active *durableEntity, a answer, read bool) answer {
	s := r.turn.shard()
	d := s.durable
	a.after = r
	if a.code == wire.CodePanic {
		r.drop(e) // the method's changes are dropped
		r.ticket = r.tenure.Observe(e.ID, s.mayRun())
		return a
	}
	forget := r.turn.flags.Load()&forgetAfter != 0
	var state []byte
	checked := read && s.driver().checksReads
	if !read || checked {
		var err error
		if state, err = d.encode(e.Value, e.State(), len(active.state)); err != nil {
			r.drop(e)
			return refuseTurn(a, fmt.Sprintf("encode the state of %s/%s: %v (correct the value that its encoder refuses)", s.ID.Kind, clip(e.ID), err))
		}
	}
	tells := r.tells.take()
	changed := !read && (!bytes.Equal(state, active.state) || len(tells) > 0)
	if checked && !bytes.Equal(state, active.state) {
		r.drop(e)
		return refuseTurn(a, d.wrote(e, r.turn.method).Error())
	}
	events, err := takeEvents(&s.host.desc, e.Value, active.state, state, read, e.ID)
	if err != nil {
		r.drop(e)
		return refuseTurn(a, fmt.Sprintf("%s/%s: %v", s.ID.Kind, clip(e.ID), err))
	}
	if !changed && !forget && len(events) == 0 {
		active.woken = false
		r.ticket = r.tenure.Observe(e.ID, s.mayRun())
		r.discard()
		r.sendTells(tells)
		d.tasks.release(r.tenure, r.ticket)
		return a
	}
	turn := durable.Turn{Entity: e.ID, Active: active.core, State: state, Events: events, Ended: forget, Tells: loggedTells(tells), Expires: d.expiry(), Form: form(&s.host.desc)}
	if r.command.Number != 0 {
		turn.Command, turn.Answer = &r.command, keptOf(a)
	}
	ticket, err := r.tenure.Commit(turn)
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		r.drop(e)
		refusal := refuseTurn(a, err.Error())
		refusal.code = wire.CodeCommitLarge
		return refusal
	case err != nil:
		r.drop(e)
		return answer{code: wire.CodeDropped}
	}
	a = here.share(a, turn.Answer)
	r.ticket, active.state, active.last, active.expires = ticket, state, ticket, turn.Expires
	active.woken = false
	d.tasks.release(r.tenure, ticket)
	return a
}

// drop ends the activation of a turn that commits nothing.
func (r *durableTurn) drop(e *region.Entity) {
	r.discard()
	r.turn.shard().durable.drop(e)
}

// refuseTurn is the answer for a turn whose changes are all dropped.
func refuseTurn(a answer, text string) answer {
	if a.code == wire.CodeOK && a.payload != nil {
		answerPool.Put(a.payload)
	}
	return answer{code: wire.CodeRefused, text: text}
}

// unwoken ends an activation whose OnActivate has told others something that no turn has committed.
// OnActivate runs again before the next turn.
func (r *durableTurn) unwoken(e *region.Entity, active *durableEntity) {
	if active.woken && len(r.tells.take()) > 0 {
		r.turn.shard().host.lost(e)
		e.Clear()
	}
}

// sendTells sends the tells of a turn without a commit, of a method marked //shard:read, once
// everything that the turn saw is in the log.
func (r *durableTurn) sendTells(tells []durableTell) {
	if len(tells) == 0 {
		return
	}
	r.tenure.Then(r.ticket, func(err error) {
		for _, t := range tells {
			if err == nil { // otherwise the turn runs again elsewhere, if its caller sends the call again
				t.send()
			}
		}
	})
}

// durableTell is a tell of a durable entity's turn, which is sent when the turn is
// committed.
type durableTell struct {
	invoker invoker
	ref     *codegen.Ref
	method  string
	args    []byte
	says    *outgoing
}

// durableTells are the tells of one turn. It is safe for concurrent use.
type durableTells struct {
	mu    sync.Mutex
	all   []durableTell
	taken bool // the turn has ended
}

// add adds a tell of the turn. It reports false if the turn has ended.
func (d *durableTells) add(c *outCall, p invoker) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		d.all = append(d.all, durableTell{p, c.Ref, c.Method, slices.Clone(c.Args), outgoingOf(c.Context)})
	}
	return !d.taken
}

// take ends the turn and returns its tells.
func (d *durableTells) take() []durableTell {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all, d.taken = nil, true
	return all
}

// logged returns the tell in the form of the log.
func (t durableTell) logged() durable.Tell {
	k := t.invoker.kind
	body := durablehost.Body{Method: t.method, Args: t.args}
	if t.says != nil {
		body.Info = t.says.encoded
	}
	return durable.Tell{
		Target: durable.Target{Log: k.desc.Name, Shard: placement.ShardOf(t.ref.Hash, k.shards)},
		Entity: t.ref.ID, Body: body.Append(nil),
	}
}

// loggedTells returns the tells of a commit in the form of the log.
func loggedTells(tells []durableTell) (all []durable.Tell) {
	for _, t := range tells {
		all = append(all, t.logged())
	}
	return all
}

// send sends a tell of a turn without a commit. It is not stored, so it may be lost.
func (t durableTell) send() {
	drv := t.invoker.kind.driver
	ctx := drv.ctx
	if t.says != nil {
		ctx = context.WithValue(ctx, outgoingKey{}, t.says)
	}
	if err := t.invoker.tell(&outCall{Context: ctx, Args: t.args, Ref: t.ref, Method: t.method}); err != nil {
		drv.lost.lose(&drv.counters, NotExecuted)
		drv.seldom.warn(drv.log, "tell of a durable entity could not be sent", t.invoker.kind.desc.Name, t.method,
			"kind", t.invoker.kind.desc.Name, "entity", clip(t.ref.ID), "method", t.method, "err", err)
	}
}
