package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// lookRetry is the pause after a look at an entity that did not run.
const lookRetry = time.Second

// Errors of reminders; package shard has their documentation.
var (
	ErrNoReminders = errors.New("reminders need the context of a turn of a durable type (use the context of the method, before it returns)")
	ErrTryAgain    = errors.New("try again")
)

// A Firing describes the reminder that a turn runs.
type Firing struct {
	Name   string
	Due    time.Time
	Late   time.Duration
	Missed int
}

// turnReminders are the reminders of an entity as its turn has changed them.
type turnReminders struct {
	all     reminders.List
	changed bool
	dropped bool // the turn's changes are dropped
	firing  *Firing
	ran     *wire.DurableReminder // by a firing, whose commit ends its tries
	command durable.Command       // the source of nested calls of a firing
}

// builtins are the methods of durable entities that the runtime answers itself.
func builtins() map[string]*hostedMethod {
	return map[string]*hostedMethod{
		wire.MethodFire:       {run: fire},
		wire.MethodSchedule:   {run: scheduleReminder},
		wire.MethodUnschedule: {run: unscheduleReminder},
		wire.MethodRetry:      {run: retryReminder},
		wire.MethodScheduled:  {run: scheduledReminders, read: true},
	}
}

func remindedTurn(ctx context.Context) (*durableTurn, error) {
	t := turnOf(ctx)
	if d := durableOf(t); d != nil && d.tenure != nil {
		return d, nil
	}
	if t != nil {
		return nil, fmt.Errorf("%s/%s: %w", t.shard().ID.Kind, clip(t.entity.ID), ErrNoReminders)
	}
	return nil, ErrNoReminders
}

// remindersLocked returns the turn's reminders. The caller holds r.mu.
func (r *durableTurn) remindersLocked() *turnReminders {
	if r.reminders == nil {
		r.reminders = &turnReminders{all: slices.Clone(r.tenure.Reminders(r.turn.entity.ID))}
	}
	return r.reminders
}

// takeReminders returns the reminders after the turn, or nil if it has not changed them.
func (r *durableTurn) takeReminders() *wire.DurableReminders {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reminded = true
	if r.reminders == nil || !r.reminders.changed {
		return nil
	}
	return r.reminders.all.Message()
}

func (r *durableTurn) mayRemind(what string) error {
	r.mu.Lock()
	wakes := r.wakes
	r.mu.Unlock()
	if r.read && !wakes { // changes of OnActivate are committed
		at := r.turn.shard().ID
		return fmt.Errorf("%s %s/%s: a method marked //shard:read changes no reminders (remove the mark)", what, at.Kind, clip(r.turn.entity.ID))
	}
	return nil
}

// set resolves a request, and adds its reminder to the turn's commit.
func (r *durableTurn) set(request *wire.DurableSchedule) error {
	if err := r.mayRemind("schedule"); err != nil {
		return err
	}
	s, id := r.turn.shard(), r.turn.entity.ID
	fail := func(err error) error {
		return fmt.Errorf("schedule %s of %s/%s: %w", clip(request.GetReminder().GetMethod()), s.ID.Kind, clip(id), err)
	}
	if _, there := s.Host.Desc.Dispatch[request.GetReminder().GetMethod()]; !there {
		return fail(errors.New("the type has no such method"))
	}
	version, now := r.tenure.NextVersion(id), r.tenure.StoreNow()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reminded {
		return fail(ErrNoReminders)
	}
	rs := r.remindersLocked()
	all, err := rs.all.Set(request, s.ID.Kind+"/"+id, version, now)
	if err != nil {
		return fail(err)
	}
	rs.all, rs.changed = all, true
	return nil
}

// cancel removes a reminder, and reports whether there was one.
func (r *durableTurn) cancel(name string) (there bool, err error) {
	if err := r.mayRemind("unschedule"); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reminded {
		return false, ErrNoReminders
	}
	rs := r.remindersLocked()
	all := rs.all.Without(name)
	if there = len(all) < len(rs.all); there {
		rs.all, rs.changed = all, true
	}
	return there, nil
}

// replace puts next in the place of a reminder that has fired; nil removes it.
func (r *durableTurn) replace(fired, next *wire.DurableReminder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rs := r.remindersLocked()
	rs.all, rs.changed = rs.all.Replaced(fired, next), true
}

func scheduleReminder(ctx context.Context, _ any, args, out []byte) ([]byte, error) {
	r, err := remindedTurn(ctx)
	if err != nil {
		return out, err
	}
	request, err := reminders.Decode(args)
	if err != nil {
		return out, &codegen.ArgumentsError{Err: fmt.Errorf("schedule: %w", err)}
	}
	r.mark(request.GetReminder())
	return out, r.set(request)
}

// mark notes on whose behalf a reminder runs. What the request says of that does not count, because a
// client may send anything.
func (r *durableTurn) mark(m *wire.DurableReminder) {
	m.Info, m.Client = nil, ""
	if r.unusual != nil {
		m.Info = slices.Clone(r.unusual.info)
	}
	if from := r.turn.info().From; from.Class == classClient {
		m.Client = from.Name
	}
}

func unscheduleReminder(ctx context.Context, _ any, args, out []byte) ([]byte, error) {
	there, err := Unschedule(ctx, string(args))
	if there {
		return append(out, 1), err
	}
	return append(out, 0), err
}

func retryReminder(ctx context.Context, _ any, args, out []byte) ([]byte, error) {
	r, err := remindedTurn(ctx)
	if err != nil {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rs := r.remindersLocked()
	all, ok := rs.all.Retried(string(args))
	if !ok {
		return append(out, 0), nil
	}
	rs.all, rs.changed = all, true
	return append(out, 1), nil
}

func scheduledReminders(ctx context.Context, _ any, _, out []byte) ([]byte, error) {
	all, err := Scheduled(ctx)
	if err != nil {
		return out, err
	}
	return append(out, reminders.Encode(all.Message())...), nil
}

// Unschedule cancels a reminder of the turn's entity.
func Unschedule(ctx context.Context, name string) (there bool, err error) {
	r, err := remindedTurn(ctx)
	if err != nil {
		return false, err
	}
	return r.cancel(name)
}

// Scheduled returns the reminders of the turn's entity, which are not to be changed.
func Scheduled(ctx context.Context) (reminders.List, error) {
	r, err := remindedTurn(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.remindersLocked().all), nil
}

// FiredReminder returns the reminder that the turn runs.
func FiredReminder(ctx context.Context) (f Firing, ok bool) {
	r := durableOf(turnOf(ctx))
	if r == nil {
		return f, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reminders == nil || r.reminders.firing == nil {
		return f, false
	}
	return *r.reminders.firing, true
}

// Self returns the invoker and the id of the entity whose turn ctx belongs to.
func Self(ctx context.Context, kind string) (codegen.Invoker, string, error) {
	t := turnOf(ctx)
	if t == nil || t.shard().ID.Kind != kind {
		return nil, "", fmt.Errorf("reference to the own %s: the context belongs to no turn of a %s (use the context of its method)", kind, kind)
	}
	return InvokerOf(t.shard().Host.Kind), t.entity.ID, nil
}

func delayOf(r *codegen.Ref) *codegen.Delay {
	if odd, is := r.Invoker.(*codegen.RefWithOptions); is {
		return odd.Options.Delay
	}
	return nil
}

var errDelayed = errors.New("options of reminders, such as shard.In, are for tells (use Tell instead of Ref)")

// schedule sends a tell with a time. In a turn of a durable type it is part of the commit. Otherwise
// schedule returns when the receiver has committed it.
func (p invoker) schedule(ctx context.Context, r *codegen.Ref, delay *codegen.Delay, method string, args []byte) error {
	request, err := requestOf(delay, method, args)
	odd := r.Invoker.(*codegen.RefWithOptions)
	switch {
	case odd.Err != nil:
		err = odd.Err
	case err == nil && !p.kind.Desc.Durable:
		err = fmt.Errorf("type %s has no reminders, because it is not durable (add durable to its directive)", p.kind.Desc.Name)
	}
	if err != nil {
		return p.fail(r, method, calls.NotExecuted, err)
	}
	if o := outgoingOf(ctx); o != nil {
		request.Reminder.Info = o.encoded
	}
	if _, mapped := callerOf(ctx); mapped != nil {
		c := outCall{Context: ctx, Args: reminders.Encode(request), Ref: &codegen.Ref{Invoker: odd.Invoker, ID: r.ID, Hash: r.Hash}, Method: wire.MethodSchedule}
		if err := mapped.add(&c, p); err != nil {
			return p.fail(r, method, calls.NotExecuted, err)
		}
		return nil
	}
	if d := durableOf(turnOf(ctx)); d != nil && d.tenure != nil {
		if d.turn.shard().Host.Kind == p.kind && d.turn.entity.ID == r.ID {
			if err := d.set(request); err != nil {
				return p.fail(r, method, calls.NotExecuted, err)
			}
			return nil
		}
		if request.After != 0 {
			request.Reminder.Due, request.After = d.tenure.StoreNow()+request.GetAfter(), 0
		}
		c := outCall{Context: ctx, Args: reminders.Encode(request), Ref: r, Method: wire.MethodSchedule}
		if d.tells.add(&c, p) {
			return nil
		}
	}
	options := odd.Options
	options.Delay = nil
	plain := &codegen.Ref{Invoker: &codegen.RefWithOptions{Invoker: odd.Invoker, Options: options}, ID: r.ID, Hash: r.Hash}
	if err := p.cannot(ctx, plain, wire.MethodSchedule); err != nil {
		return err
	}
	_, err = p.Do(ctx, plain, wire.MethodSchedule, append(codegen.NewArgs(), reminders.Encode(request)...))
	return err
}

func requestOf(delay *codegen.Delay, method string, args []byte) (*wire.DurableSchedule, error) {
	if delay.Err != nil {
		return nil, delay.Err
	}
	m := &wire.DurableReminder{
		Name: delay.Name, Method: method, Args: slices.Clone(args), Kind: uint32(delay.Kind), Period: delay.Period.Milliseconds(),
		Cron: delay.Cron, Zone: delay.Zone, Jitter: delay.Jitter.Milliseconds(), CatchUp: delay.CatchUp, SkipLate: delay.SkipLate.Milliseconds(),
	}
	request := &wire.DurableSchedule{Reminder: m}
	switch {
	case !delay.At.IsZero():
		m.Due = delay.At.UnixMilli()
	case schedule.Kind(delay.Kind) == schedule.KindOnce:
		request.After = max(delay.After.Milliseconds(), 1)
	}
	return request, reminders.Check(request)
}

// retries are the reminders of a shard that failed at this home. It is safe for concurrent use.
type retries struct {
	mu   sync.Mutex
	core reminders.Retries
}

func (f *retries) look(r *durableTurn, all reminders.List, now int64) reminders.Look {
	f.mu.Lock()
	defer f.mu.Unlock()
	host := r.turn.shard().Host
	return f.core.Look(r.turn.entity.ID, all, now, host.driver.deadAfter().Milliseconds(), func(method string) bool {
		_, there := host.Desc.Dispatch[method]
		return there
	})
}

func (f *retries) succeeded(entity string, m *wire.DurableReminder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.core.Succeeded(entity, m)
}

// fire runs the earliest reminder of the entity that is due. Its result is Look.Again.
func fire(ctx context.Context, entity any, _, out []byte) ([]byte, error) {
	r, err := remindedTurn(ctx)
	if err != nil {
		return out, err
	}
	all, err := Scheduled(ctx)
	if err != nil {
		return out, err
	}
	s, id, now := r.turn.shard(), r.turn.entity.ID, r.tenure.StoreNow()
	drv, kind := s.driver(), s.ID.Kind
	look := s.Durable.retries.look(r, all, now)
	out = binary.AppendUvarint(out, uint64(look.Again))
	if look.Err != nil {
		drv.Counts.Add(reminderWaits)
		drv.Limiter.error(drv.Logger, "reminder waits", kind, "", "kind", kind, "entity", clip(id), "err", look.Err)
	}
	switch {
	case look.GivenUp:
		drv.Counts.Add(reminderAside)
		drv.Logger.Error("reminder given up, because it failed for too long", "kind", kind, "entity", clip(id), "name", clip(look.Ended.GetName()), "method", look.Ended.GetMethod(), "tries", look.Tries)
	case look.Ended != nil:
		drv.Counts.Add(reminderSkipped)
	}
	if look.Ended != nil {
		r.replace(look.Ended, look.Following)
	}
	if look.Run == nil {
		return out, nil
	}
	m, due := look.Run, time.UnixMilli(look.Run.GetDue())
	late := max(time.UnixMilli(now).Sub(due), 0)
	r.mu.Lock()
	r.reminders.firing = &Firing{m.GetName(), due, late, look.Missed}
	r.reminders.command = durablehost.FiringCommand(kind, id, m)
	r.mu.Unlock()
	r.turn.method = m.GetMethod()
	drv.Meters.fired(kind, late)
	ran, err := r.runReminder(entity, m)
	if _, unread := err.(*codegen.ArgumentsError); !ran || unread || errors.Is(err, ErrTryAgain) { //nolint:errorlint // only the method's own
		drv.Limiter.Warn(drv.Logger, "reminder is tried again", kind, m.GetMethod(), "kind", kind, "entity", clip(id), "name", clip(m.GetName()), "method", m.GetMethod(), "tries", look.Tries+1, "err", err)
		r.reminders.dropped = true
		return out, nil
	}
	r.replace(m, look.Following)
	r.reminders.ran = m
	return out, err
}

// runReminder runs a reminder's method inside the host's interceptors. ran is false if one of them has
// refused it; otherwise err is the method's.
func (r *durableTurn) runReminder(entity any, m *wire.DurableReminder) (ran bool, err error) {
	s := r.turn.shard()
	if sender := s.driver().Local; len(m.GetInfo()) > 0 || m.GetClient() != "" {
		if m.GetClient() != "" {
			sender = transport.Peer{Address: transport.Address{Name: m.GetClient()}, Client: true}
		}
		r.unusual = &unusualCall{sender, m.GetInfo(), true}
	}
	info := r.turn.info()
	info.Tell, info.Arrived = true, time.Now()
	refusal := intercept(&r.turn, s.Host.Settings.Intercept, func(context.Context) CallInfo { return info }, func(ctx context.Context) error {
		switch {
		case ran:
			return errNextTwice
		case turnOf(ctx) != &r.turn:
			return errContext
		}
		ran = true
		_, err = s.Host.Desc.Dispatch[m.GetMethod()](ctx, entity, m.GetArgs(), nil)
		return err
	})
	if !ran && refusal == nil {
		refusal = errNoNext
	}
	if !ran {
		s.driver().refused(wire.CodeIntercepted)
		return false, refusal
	}
	return true, err
}

// lookAt runs the due reminders of entities of a shard.
func (drv *Driver) lookAt(t *durablehost.Tenure, entities []string) {
	k := (*drv.Kinds.Load())[t.Shard().Type]
	for _, id := range entities {
		drv.Group.Go(func() {
			again := int64(0)
			if k == nil {
				again = t.StoreNow() + lookRetry.Milliseconds()
			} else {
				again = drv.look(t, k, id)
			}
			t.Looked(id, again)
		})
	}
}

func (drv *Driver) look(t *durablehost.Tenure, k *Kind, id string) (again int64) {
	ctx, cancel := context.WithTimeout(t.Context(), storedTellPatience)
	defer cancel()
	p := invoker{k}
	ref := codegen.NewRef(p, id, nil)
	result, err := p.Do(ctx, ref, wire.MethodFire, codegen.NewArgs())
	if err == nil {
		until, n := binary.Uvarint(result)
		if n > 0 {
			return int64(until)
		}
	}
	if failed, ok := drv.Config.ReadCallError(err); ok && failed.Outcome == calls.Executed {
		return 0
	}
	return t.StoreNow() + lookRetry.Milliseconds()
}

// deadAfter is the age at which tells and reminders are given up.
func (drv *Driver) deadAfter() time.Duration {
	if d := drv.Limits.DeadAfter; d > 0 {
		return d
	}
	return time.Hour
}

// calledMethod returns the method that a call runs or schedules.
func calledMethod(method string, args []byte) string {
	if method == wire.MethodSchedule {
		if request, err := reminders.Decode(args); err == nil {
			return request.GetReminder().GetMethod()
		}
	}
	return method
}
