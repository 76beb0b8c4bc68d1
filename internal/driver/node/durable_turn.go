package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// durableTurn runs its call under the shard's tenure and commits the changes.
type durableTurn struct {
	remoteTurn
	tenure  *durablehost.Tenure
	read    bool            // its method changes nothing
	command durable.Command // the zero Command: the call has none
	ticket  durable.Ticket  // up to this ticket everything must be in the log before the answer leaves
	seen    durable.Ticket  // up to this ticket everything must be in the log before the turn's calls leave
	caller  context.Context // the caller's context, which ends the turn's, if the turn runs on the caller's goroutine; otherwise nil
	swift   bool            // the turn was not refused, waited for nothing and ran no hook, so nothing else refers to it

	mu    sync.Mutex
	wakes bool // OnActivate is running
	calls durable.Calls
	tells durableTells
	// reminders is nil unless the turn reads or changes reminders; most turns do not.
	reminders *turnReminders
	reminded  bool // the commit has taken reminders; a goroutine of the method may still run
}

func durableOf(t *turn) *durableTurn {
	if t == nil {
		return nil
	}
	r, _ := t.parent.(*durableTurn)
	return r
}

// base returns the caller's context if the turn runs on the caller's goroutine, otherwise the
// process's.
func (r *durableTurn) base() context.Context {
	if r.caller != nil {
		return r.caller
	}
	return r.remoteTurn.base()
}

func (r *durableTurn) mayLeave() bool { return r.tenure.Reached(r.ticket) }

// answer sends an answer once everything that the turn saw is in the log. If the tenure ends first,
// the caller repeats a command, and any other call fails with an unknown outcome.
func (r *durableTurn) answer(drv *Driver, c *InCall, a answer) {
	a.after = nil
	drv.answering.Add(1)
	s, since := r.turn.shard(), drv.Lease.Now()
	do := func(err error) {
		defer drv.answering.Add(-1)
		s.committed(wire.StringOf(c.Method), since)
		if err != nil {
			a = inDoubt(err)
		}
		c.answer(drv, a, peers.Pumps{})
	}
	if c.hasCommand() {
		r.tenure.Answer(r.ticket, durablehost.WaiterFunc(do)) // its caller asks again
	} else {
		r.tenure.Then(r.ticket, do)
	}
}

func inDoubt(err error) answer { return answer{code: wire.CodeInDoubt, text: err.Error()} }

func (r *durableTurn) logged() bool {
	return r.tenure == nil || r.tenure.Reached(r.seen) // nil: it is an interceptor's call
}

func (r *durableTurn) before(ctx context.Context) error {
	if r.logged() {
		return nil
	}
	r.turn.yieldLane()
	began := r.turn.shard().driver().Lease.Now()
	defer r.turn.waitedSince(began)
	return r.tenure.Wait(ctx, r.seen)
}

// activating records that OnActivate runs until end is called.
func (r *durableTurn) activating() (end func()) {
	set := func(on bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wakes = on
	}
	set(true)
	return func() { set(false) }
}

// nested sets id to the command id of a call that the turn makes. It reports false if the call has
// none, for example a call from OnActivate: a repeated turn may run without OnActivate.
func (r *durableTurn) nested(id *durablehost.ID, kind, entity, method string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	command := &r.command
	if r.reminders != nil && r.reminders.command.Number != 0 {
		command = &r.reminders.command
	}
	if command.Number == 0 || r.wakes {
		return false
	}
	at := r.turn.shard().ID
	*id = durablehost.Nested(*command, durable.Target{Log: at.Kind, Shard: at.Shard}, &r.calls, kind, entity, method)
	return true
}

func (r *durableTurn) runCall(e *region.Entity, c *InCall, method codegen.Method) answer {
	s := r.turn.shard()
	r.tenure = s.Durable.Current()
	r.swift = r.tenure != nil
	if !r.swift {
		if err := r.open(); err != nil {
			return r.notOpen(err)
		}
	}
	if c.hasCommand() && !r.read {
		if a, ok := r.admit(e, c); !ok {
			r.swift = false
			return a
		}
	}
	settled := false
	defer func() { // also when the method ends this goroutine
		if !settled {
			r.discard()
			s.Host.lost(e)
			e.Clear()
		}
	}()
	active, a, run := r.activate(e, c)
	if run {
		r.seen = active.last
		a = r.settle(e, c.here, active, runMethod(s, &r.encodedTurn, e, c, method))
	} else {
		r.swift = false
	}
	settled = true
	return a
}

func (r *durableTurn) open() (err error) {
	t, d := &r.turn, r.turn.shard().Durable
	t.yieldLane()
	ctx, cancel := d.patience(t)
	defer cancel()
	defer t.waitedSince(t.shard().driver().Lease.Now())
	if r.tenure, err = d.Tenure(ctx); err != nil && d.Outgrown() { // a coordinator that began anew knows no home yet
		d.hosted.driver().Control.Ask(d.hosted.ID.Kind)
	}
	return err
}

func (r *durableTurn) activate(e *region.Entity, c *InCall) (active *durableEntity, a answer, run bool) {
	s, t := r.turn.shard(), &r.turn
	d := s.Durable
	if why := d.strayed(e, r.tenure); why != "" {
		s.Host.died(why)
		r.discard()
		return nil, answer{code: wire.CodeDropped}, false // the next instance takes the call
	}
	if active = d.ready(e, r.tenure); active == nil {
		r.swift = false
		var err error
		if active, err = d.activate(t, e, r.tenure); err != nil {
			r.discard()
			switch {
			case errors.Is(err, errActivate):
				return nil, notActivated(s, e, c, err), false
			case errors.Is(err, errEnded):
				return nil, answer{payload: &[]byte{0}}, false // nothing is due
			}
			return nil, r.notOpen(err), false
		}
	}
	if !r.swift { // the store or the hook may have taken long
		if a, ok := s.leased(t); !ok {
			r.discard()
			r.unwoken(e, active)
			return nil, a, false
		}
	}
	if r.command.Key != "" {
		if v := r.tenure.Keyed(e.ID, &r.command); v.Verdict != durable.Run {
			r.discard()
			r.unwoken(e, active)
			return nil, r.decided(v), false
		}
	}
	return active, a, true
}

func (r *durableTurn) notOpen(err error) answer {
	switch {
	case errors.Is(err, durablehost.ErrNotHere), r.cut():
		return answer{code: wire.CodeDropped} // its caller looks for its home
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return answer{code: wire.CodeExpired, text: err.Error()}
	}
	return answer{code: wire.CodeActivation, text: err.Error()}
}

func (r *durableTurn) admit(e *region.Entity, c *InCall) (a answer, run bool) {
	if err := r.identify(e, c); err != nil {
		return answer{code: wire.CodeBadArgs, text: err.Error()}, false
	}
	if r.command.Number == 0 {
		return a, true
	}
	v := r.tenure.Admit(&r.command)
	if v.Verdict == durable.Run {
		return a, true
	}
	r.command = durable.Command{}
	return r.decided(v), false
}

func (r *durableTurn) identify(e *region.Entity, c *InCall) error {
	if c.here != nil {
		if id := c.here.command; !id.IsZero() {
			id.Command(&r.command, c.Sender.Incarnation, e.ID, wire.StringOf(c.Method), c.Args)
		}
		return nil
	}
	id, err := durablehost.ReadID(c.Command)
	if err != nil || id.IsZero() {
		return err
	}
	if c.Sender.Client { // clients number their own commands
		id.Source, id.Log, id.To = 0, durable.Target{}, durable.Target{}
	}
	id.Command(&r.command, c.Sender.Incarnation, e.ID, wire.StringOf(c.Method), c.Args)
	return nil
}

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
	case durable.Forgotten:
		r.ticket = v.Ticket
		return answer{code: wire.CodeForgotten, text: fmt.Sprintf("%s ran the command within the last minutes, but then ran too many calls with other keys and dropped the answer", r.turn.shard().ID.Kind), after: r}
	case durable.BelowFloor:
		return answer{code: wire.CodeCanceled, text: "its caller no longer waits for it"}
	case durable.Mismatch:
		return answer{code: wire.CodeReused, text: fmt.Sprintf(
			"%s was called with this command id for another method or with other arguments (a key of shard.CommandID names one call with its arguments; a turn that runs again must make the calls that it made before)", r.turn.shard().ID.Kind)}
	case durable.Overloaded:
		return answer{code: wire.CodeOverloaded, text: fmt.Sprintf(
			"shard %v has too many bytes that are not in the store yet, too many commands whose callers have not finished, or too many keys of the last 10 minutes (retry later)", r.turn.shard().ID)}
	}
	return answer{code: wire.CodeDropped}
}

// discard ends the turn's command without storing an answer for it.
func (r *durableTurn) discard() {
	if r.command.Number != 0 {
		r.tenure.Discard(&r.command)
	}
}

// settle commits the changes of a turn and returns the answer, to be sent when the changes are in
// the log.
func (r *durableTurn) settle(e *region.Entity, here *hereCall, active *durableEntity, a answer) answer {
	read := r.read && !active.woken
	tells, after := r.tells.take()
	d := r.turn.shard().Durable
	a.after = r
	if a.code == wire.CodePanic || a.code == wire.CodeRefused || r.reminders != nil && r.reminders.dropped { // refused, dropped: by TryAgain
		r.drop(e) // the method's changes are dropped
		r.observe(e)
		return a
	}
	turn := durable.Turn{Entity: e.ID, Ended: r.turn.flags.Load()&forgetAfter != 0}
	changed, err := r.changes(&turn, e, active, read)
	if err != nil {
		r.drop(e)
		return refuseTurn(a, err.Error())
	}
	if turn.Reminders = r.takeReminders(); turn.Reminders != nil {
		changed = true
	}
	if !changed && (read || len(tells) == 0) {
		active.woken = false
		r.observe(e)
		r.discard()
		r.sendTells(append(tells, after...))
		d.tasks.release(r.tenure, r.ticket)
		return a
	}
	if a.code == wire.CodeTooLarge { // its caller would have nothing of what was changed
		r.drop(e)
		return answer{code: wire.CodeCommitLarge, text: a.text}
	}
	if r.command.Number != 0 {
		turn.Command, turn.Answer = &r.command, keptOf(a)
	}
	turn.Tells, turn.Expires, turn.Form = loggedTells(tells), d.expiry(r.tenure), form(&d.hosted.Host.Desc)
	turn.Index = keysOf(&d.hosted.Host.Desc, e.Value)
	ticket, err := r.tenure.Commit(&turn)
	if err != nil {
		r.drop(e)
		return notCommitted(a, err)
	}
	if r.reminders != nil && r.reminders.ran != nil {
		d.retries.succeeded(e.ID, r.reminders.ran)
	}
	a = here.share(a, turn.Answer)
	r.ticket, active.state, active.last, active.expires = ticket, turn.State, ticket, turn.Expires
	active.woken = false
	r.sendTells(after)
	d.tasks.release(r.tenure, ticket)
	return a
}

// changes sets the state and the events to commit, and reports whether there are any. An error
// means that the call is refused.
func (r *durableTurn) changes(turn *durable.Turn, e *region.Entity, active *durableEntity, read bool) (changed bool, err error) {
	s := r.turn.shard()
	checked := read && s.driver().ChecksTurns
	if !read || checked {
		if turn.State, err = s.Durable.encode(e.Value, e.State(), len(active.state)); err != nil {
			return false, fmt.Errorf("encode the state of %s/%s: %w (correct the value that its encoder refuses)", s.ID.Kind, clip(e.ID), err)
		}
	}
	same := bytes.Equal(turn.State, active.state)
	if checked && !same {
		return false, s.Durable.wrote(e, r.turn.method)
	}
	if turn.Events, err = s.Durable.events().collect(e.Value, active.state, turn.State, read, e.ID); err != nil {
		return false, fmt.Errorf("%s/%s: %w", s.ID.Kind, clip(e.ID), err)
	}
	if len(turn.Events) > 0 {
		turn.Sum = stateSum(&s.Host.Desc, turn.State)
	}
	return turn.Ended || len(turn.Events) > 0 || !read && (!same || r.command.Source.Stream()), nil
}

// observe makes the answer wait until the entity's last commit is in the log.
func (r *durableTurn) observe(e *region.Entity) {
	r.ticket = r.tenure.Observe(e.ID, r.turn.shard().mayRun())
}

func notCommitted(a answer, err error) answer {
	if !errors.Is(err, durable.ErrTooLarge) {
		return answer{code: wire.CodeDropped}
	}
	a = refuseTurn(a, err.Error())
	a.code = wire.CodeCommitLarge
	return a
}

func (r *durableTurn) drop(e *region.Entity) {
	r.discard()
	r.turn.shard().Durable.drop(e)
}

func refuseTurn(a answer, text string) answer {
	if a.code == wire.CodeOK && a.payload != nil {
		answerPool.Put(a.payload)
	}
	return answer{code: wire.CodeRefused, text: text}
}

// unwoken drops an activation if its OnActivate has sent tells or changed reminders, and no turn
// has committed these. OnActivate then runs again.
func (r *durableTurn) unwoken(e *region.Entity, active *durableEntity) {
	if !active.woken {
		return
	}
	if tells, after := r.tells.take(); len(tells)+len(after) > 0 || r.takeReminders() != nil {
		r.turn.shard().Host.lost(e)
		e.Clear()
	}
}

// sendTells sends the tells of a //shard:read turn, which has no commit, or the messages published
// with best effort. They leave once everything that the turn saw or changed is in the log.
// sendTells does not wait for that.
func (r *durableTurn) sendTells(tells []durableTell) {
	if len(tells) == 0 {
		return
	}
	drv := r.turn.shard().driver()
	r.tenure.Then(r.ticket, func(err error) {
		for _, t := range tells {
			if err == nil { // otherwise the turn runs again elsewhere, if its caller sends the call again
				t.send(drv)
			}
		}
	})
}

// reads reports whether the turn has no commit of which a message published now could be a part.
func (r *durableTurn) reads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read && !r.wakes
}

// A durableTell is a tell, or a message that is published.
type durableTell struct {
	message *message // nil: it is a tell
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
	sends []durableTell // sent once each, after the commit
	taken bool          // the turn has ended
}

func (d *durableTells) add(c *outCall, p invoker) bool {
	return d.put(durableTell{nil, p, c.Ref, c.Method, slices.Clone(c.Args), outgoingOf(c.Context)})
}

// put adds a tell or message that is to be committed. It reports false if the turn has ended.
func (d *durableTells) put(t durableTell) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		d.all = append(d.all, t)
	}
	return !d.taken
}

// after adds a tell or message that is sent once, after the commit, and is not stored in the log.
// If the turn has ended, it adds nothing and reports false.
func (d *durableTells) after(t durableTell) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		d.sends = append(d.sends, t)
	}
	return !d.taken
}

func (d *durableTells) take() (all, sends []durableTell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, sends = d.all, d.sends
	d.all, d.sends, d.taken = nil, nil, true
	return all, sends
}

func (t durableTell) logged() durable.Tell {
	if t.message != nil {
		return t.message.logged()
	}
	k := t.invoker.kind
	body := durablehost.Body{Method: t.method, Args: t.args}
	if t.says != nil {
		body.Info = t.says.encoded
	}
	return durable.Tell{
		Target: durable.Target{Log: k.Desc.Name, Shard: placement.ShardOf(t.ref.Hash, k.Shards)},
		Entity: t.ref.ID, Body: body.Append(nil),
	}
}

// loggedTells returns tells in the form in which the log stores them.
//
//go:noinline
func loggedTells(tells []durableTell) []durable.Tell {
	all := make([]durable.Tell, len(tells))
	for i, t := range tells {
		all[i] = t.logged()
	}
	return all
}

func (t durableTell) send(drv *Driver) {
	if t.message != nil {
		t.message.send(drv)
		return
	}
	ctx := drv.Context
	if t.says != nil {
		ctx = context.WithValue(ctx, outgoingKey{}, t.says)
	}
	if err := t.invoker.tell(&outCall{Context: ctx, Args: t.args, Ref: t.ref, Method: t.method}); err != nil {
		drv.Undelivered.lose(&drv.Counts, calls.NotExecuted)
		drv.Limiter.Warn(drv.Logger, "tell of a durable entity could not be sent", t.invoker.kind.Desc.Name, t.method,
			"kind", t.invoker.kind.Desc.Name, "entity", clip(t.ref.ID), "method", t.method, "err", err)
	}
}
