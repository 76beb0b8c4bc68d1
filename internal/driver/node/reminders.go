package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// lookRetry is the pause after a probably failed attempt to run an entity's due reminders.
const lookRetry = time.Second

// Errors of reminders; package shard has their documentation.
var (
	ErrNoReminders = errors.New("reminders need the context of a turn of an entity that is no singleton and no pool (use the context of the method, before it returns)")
	ErrTryAgain    = errors.New("try again")
)

// A Firing describes the reminder that a turn runs.
type Firing struct {
	Name   string
	Due    time.Time
	Late   time.Duration
	Missed int
}

// turnReminders are the reminders of an entity, with the changes of its turn.
type turnReminders struct {
	all     reminders.List
	changed bool
	dropped bool // the turn's changes are dropped
	firing  *Firing
	ran     *wire.DurableReminder // the reminder that the turn has run; the commit ends the count of the reminder's failed attempts
	command durable.Command       // the source of nested calls while the reminder's method runs
	trace   TurnTrace             // the reminder's trace, until the commit; nil: none
}

// builtins are the methods that the runtime itself answers for entities with reminders.
func builtins() map[string]*hostedMethod {
	return map[string]*hostedMethod{
		wire.MethodFire:       {run: fire},
		wire.MethodSchedule:   {run: scheduleReminder},
		wire.MethodUnschedule: {run: unscheduleReminder},
		wire.MethodRetry:      {run: retryReminder},
		wire.MethodScheduled:  {run: scheduledReminders, read: true},
	}
}

// A remindedTurn is a turn that can change its entity's reminders. Changes by a durableTurn take
// effect with the turn's commit, and changes by a volatileTurn at once.
type remindedTurn interface {
	whose() *turn
	// now returns the time with which due times are compared, in Unix milliseconds.
	now() int64
	// version returns a version that no reminder of the entity has yet.
	version() uint64
	list() reminders.List
	// change replaces the reminders with those that f returns, unless f fails. The error's text
	// begins with the text in what.
	change(what string, f func(reminders.List) (reminders.List, error)) error
	// replace puts next in the place of due, a reminder that is due and does not run. A nil next
	// removes due.
	replace(due, next *wire.DurableReminder)
	tries() *retries
	// fires notes that the turn runs the reminder m. ended is called when the reminder's method has
	// returned.
	fires(f *Firing, m *wire.DurableReminder) (ended func())
	// fired handles the reminder m, which has run: it ends the count of failed attempts, and puts
	// next in the place of m. A nil next removes m.
	fired(m, next *wire.DurableReminder)
	// failed drops the turn's changes, if that is possible.
	failed()
	firing() *Firing
}

// reminded returns the turn of ctx.
func reminded(ctx context.Context) (remindedTurn, error) {
	t := turnOf(ctx)
	if t == nil {
		return nil, ErrNoReminders
	}
	s := t.shard()
	d := durableOf(t)
	if d == nil && s.Durable != nil {
		if a := s.Durable.entity(t.entity); a != nil { // t only reads
			d = &durableTurn{tenure: a.tenure, read: true}
			d.turn.entity = t.entity
		}
	}
	if d != nil && d.tenure != nil && s.Host.Kind.reminds() {
		return d, nil
	}
	if v := s.volatile; v != nil {
		return volatileTurn{t, v}, nil
	}
	return nil, fmt.Errorf("%s/%s: %w", s.ID.Kind, clip(t.entity.ID), ErrNoReminders)
}

// reminds reports whether entities of the kind have reminders.
func (k *Kind) reminds() bool { return !k.Desc.Singleton && !k.Desc.Pool }

func (r *durableTurn) whose() *turn    { return &r.turn }
func (r *durableTurn) now() int64      { return r.tenure.StoreNow() }
func (r *durableTurn) version() uint64 { return r.tenure.NextVersion(r.turn.entity.ID) }
func (r *durableTurn) tries() *retries { return &r.turn.shard().Durable.retries }

func (r *durableTurn) list() reminders.List {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.remindersLocked().all)
}

func (r *durableTurn) change(what string, f func(reminders.List) (reminders.List, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.read && !r.wakes: // changes of OnActivate are committed
		at := r.turn.shard().ID
		return fmt.Errorf("%s %s/%s: a method marked //shard:read changes no reminders (remove the mark)", what, at.Kind, clip(r.turn.entity.ID))
	case r.reminded:
		return ErrNoReminders
	}
	rs := r.remindersLocked()
	all, err := f(rs.all)
	if err == nil && !slices.Equal(all, rs.all) {
		rs.all, rs.changed = all, true
	}
	return err
}

func (r *durableTurn) fires(f *Firing, m *wire.DurableReminder) (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rs := r.remindersLocked()
	rs.firing, rs.command = f, durablehost.FiringCommand(r.turn.shard().ID.Kind, r.turn.entity.ID, m)
	return func() {}
}

func (r *durableTurn) fired(m, next *wire.DurableReminder) {
	r.replace(m, next)
	r.reminders.ran = m
}

func (r *durableTurn) failed() { r.reminders.dropped = true }

func (r *durableTurn) firing() *Firing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reminders == nil {
		return nil
	}
	return r.reminders.firing
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

// replace puts next in the place of due, a reminder that is due. A nil next removes due. Unlike
// change, it does so in a //shard:read method too.
func (r *durableTurn) replace(due, next *wire.DurableReminder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rs := r.remindersLocked()
	rs.all, rs.changed = rs.all.Replaced(due, next), true
}

// setReminder computes the due time that a request means, and adds the reminder.
func setReminder(r remindedTurn, request *wire.DurableSchedule) error {
	t := r.whose()
	s, id := t.shard(), t.entity.ID
	version, now := r.version(), r.now()
	err := r.change("schedule", func(all reminders.List) (reminders.List, error) {
		if _, there := s.Host.Desc.Dispatch[request.GetReminder().GetMethod()]; !there {
			return all, errors.New("the type has no such method")
		}
		return all.Set(request, s.ID.Kind+"/"+id, version, now)
	})
	if err != nil {
		return fmt.Errorf("schedule %s of %s/%s: %w", clip(request.GetReminder().GetMethod()), s.ID.Kind, clip(id), err)
	}
	return nil
}

func scheduleReminder(ctx context.Context, _ any, args, out []byte) ([]byte, error) {
	r, err := reminded(ctx)
	if err != nil {
		return out, err
	}
	request, err := reminders.Decode(args)
	if err != nil {
		return out, &codegen.ArgumentsError{Err: fmt.Errorf("schedule: %w", err)}
	}
	mark(r.whose(), request.GetReminder())
	if err = setReminder(r, request); err != nil && r.whose().info().Tell { // nobody gets the error, so the tell is sent again
		err = &codegen.ArgumentsError{Err: err}
	}
	return out, err
}

// mark records in the reminder m on whose behalf it will run: on behalf of the turn's caller. It
// overwrites what the request says about that, because a client may send anything.
func mark(t *turn, m *wire.DurableReminder) {
	m.Info, m.Client = nil, ""
	if r := t.encoded(); r != nil && r.unusual != nil {
		m.Info = slices.Clone(r.unusual.info)
	}
	if from := t.info().From; from.Class == classClient {
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
	r, err := reminded(ctx)
	if err != nil {
		return out, err
	}
	there := byte(0)
	err = r.change("retry a reminder of", func(all reminders.List) (reminders.List, error) {
		all, ok := all.Retried(string(args))
		if ok {
			there = 1
		}
		return all, nil
	})
	return append(out, there), err
}

func scheduledReminders(ctx context.Context, _ any, _, out []byte) ([]byte, error) {
	all, err := Scheduled(ctx)
	if err != nil {
		return out, err
	}
	return append(out, reminders.Encode(all.Message())...), nil
}

// Unschedule cancels a reminder of the turn's entity, and reports whether there was one.
func Unschedule(ctx context.Context, name string) (there bool, err error) {
	r, err := reminded(ctx)
	if err != nil {
		return false, err
	}
	err = r.change("unschedule", func(all reminders.List) (reminders.List, error) {
		left := all.Without(name)
		there = len(left) < len(all)
		return left, nil
	})
	return there && err == nil, err
}

// Scheduled returns the reminders of the turn's entity. The caller must not change them.
func Scheduled(ctx context.Context) (reminders.List, error) {
	r, err := reminded(ctx)
	if err != nil {
		return nil, err
	}
	return r.list(), nil
}

// FiredReminder returns the reminder that the turn runs.
func FiredReminder(ctx context.Context) (f Firing, ok bool) {
	if r, err := reminded(ctx); err == nil && r.firing() != nil {
		return *r.firing(), true
	}
	return f, false
}

// Self returns the invoker and the id of the entity whose turn ctx belongs to.
func Self(ctx context.Context, kind string) (codegen.Invoker, string, error) {
	t := turnOf(ctx)
	if t == nil || t.shard().ID.Kind != kind {
		return nil, "", fmt.Errorf("reference to the turn's own %s: the context belongs to no turn of a %s (use the context of its method)", kind, kind)
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

// schedule sends a tell that runs later, according to delay. In a turn of a durable type, the tell
// is part of the commit. Otherwise schedule returns when the receiver has stored it.
func (p invoker) schedule(ctx context.Context, r *codegen.Ref, delay *codegen.Delay, method string, args []byte) error {
	request, err := requestOf(delay, method, args)
	odd := r.Invoker.(*codegen.RefWithOptions)
	switch {
	case odd.Err != nil:
		err = odd.Err
	case err == nil && !p.kind.reminds():
		err = fmt.Errorf("type %s has no reminders, because it is a singleton or a pool", p.kind.Desc.Name)
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
	if own, err := reminded(ctx); err == nil {
		if at := own.whose(); at.shard().Host.Kind == p.kind && at.entity.ID == r.ID {
			if err := setReminder(own, request); err != nil {
				return p.fail(r, method, calls.NotExecuted, err)
			}
			return nil
		}
	}
	if d := durableOf(turnOf(ctx)); d != nil && d.tenure != nil {
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
		m.Due = dueMilli(delay.At)
	case schedule.Kind(delay.Kind) == schedule.KindOnce:
		request.After = max(delay.After.Milliseconds(), 1)
	}
	return request, reminders.Check(request)
}

// dueMilli returns the first Unix time in milliseconds that is not before t, and at least 1, because
// 0 means none. For years that a reminder cannot have, it returns one that reminders.Check refuses.
func dueMilli(t time.Time) int64 {
	if t.Unix() > math.MaxInt64/1000-1 {
		return math.MaxInt64
	}
	return max(t.Add(time.Millisecond-1).UnixMilli(), 1)
}

// retries counts the failed attempts to run a shard's reminders at this home. It is safe for
// concurrent use.
type retries struct {
	mu   sync.Mutex
	core reminders.Retries
}

func (f *retries) look(t *turn, all reminders.List, now int64) reminders.Look {
	f.mu.Lock()
	defer f.mu.Unlock()
	host := t.shard().Host
	return f.core.Look(t.entity.ID, all, now, host.driver.deadAfter().Milliseconds(), func(method string) bool {
		_, there := host.Desc.Dispatch[method]
		return there
	})
}

func (f *retries) succeeded(entity string, m *wire.DurableReminder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.core.Succeeded(entity, m)
}

// fire runs the earliest due reminder of the entity. It returns the encoded time at which the
// entity's reminders must be run next (Look.Again).
func fire(ctx context.Context, entity any, _, out []byte) ([]byte, error) {
	r, err := reminded(ctx)
	if err != nil {
		return out, err
	}
	t := r.whose()
	s, id, now := t.shard(), t.entity.ID, r.now()
	drv, kind := s.driver(), s.ID.Kind
	look := r.tries().look(t, r.list(), now)
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
	defer r.fires(&Firing{m.GetName(), due, late, look.Missed}, m)()
	t.method = m.GetMethod()
	drv.Meters.fired(kind, late)
	ran, err := t.runReminder(entity, m)
	if _, unread := err.(*codegen.ArgumentsError); !ran || unread || errors.Is(err, ErrTryAgain) { //nolint:errorlint // only the type of the method's own error counts
		drv.Limiter.Warn(drv.Logger, "reminder is tried again", kind, m.GetMethod(), "kind", kind, "entity", clip(id), "name", clip(m.GetName()), "method", m.GetMethod(), "tries", look.Tries+1, "err", err)
		r.failed()
		return out, nil
	}
	r.fired(m, look.Following)
	return out, err
}

// runReminder runs a reminder's method inside the host's interceptors. If ran is false, an
// interceptor has refused the reminder. Otherwise err is the error of the method.
func (t *turn) runReminder(entity any, m *wire.DurableReminder) (ran bool, err error) {
	s := t.shard()
	if sender := s.driver().Local; len(m.GetInfo()) > 0 || m.GetClient() != "" {
		if m.GetClient() != "" {
			sender = transport.Peer{Address: transport.Address{Name: m.GetClient()}, Client: true}
		}
		t.encoded().unusual = &unusualCall{sender, m.GetInfo(), true}
	}
	info := t.info()
	info.Tell, info.Arrived = true, time.Now()
	ctx, traced := t.traceFiring(m, info)
	result := fmt.Errorf("%w in %s", ErrPanic, m.GetMethod()) // unless the method returns
	defer func() { traced(result) }()
	refusal := intercept(ctx, s.Host.Settings.Intercept, func(context.Context) CallInfo { return info }, func(ctx context.Context) error {
		switch {
		case ran:
			return errNextTwice
		case turnOf(ctx) != t:
			return errContext
		}
		ran = true
		began := s.driver().Lease.Now()
		_, err = s.Host.Desc.Dispatch[m.GetMethod()](ctx, entity, m.GetArgs(), nil)
		key := counting.Key{Number: s.Host.Kind.Counts.Number(m.GetMethod()), Tell: true}
		if err != nil {
			key.Cause = s.driver().causeOf(err)
		}
		took := s.driver().since(began)
		s.Host.Kind.Counts.Turns.Add(s.ID.Shard, key, took)
		s.spent(took)
		return err
	})
	if !ran && refusal == nil {
		refusal = errNoNext
	}
	if !ran {
		s.driver().refused(wire.CodeIntercepted)
		result = refusal
		return false, refusal
	}
	result = err
	return true, err
}

// lookAt starts to run the due reminders of entities of a durable shard.
func (drv *Driver) lookAt(t *durablehost.Tenure, entities []string) {
	drv.lookAll(t.Context(), (*drv.Kinds.Load())[t.Shard().Type], entities, t.StoreNow, t.Looked)
}

// lookAll starts to run the due reminders of entities of a shard of type k. It calls looked for each
// entity, with the result of look. If k is nil, nothing is run.
func (drv *Driver) lookAll(ctx context.Context, k *Kind, entities []string, now func() int64, looked func(entity string, again int64)) {
	l := &drv.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range entities {
		l.queue = append(l.queue, func() {
			again := now() + lookRetry.Milliseconds()
			if k != nil {
				again = drv.look(ctx, k, id, now)
			}
			looked(id, again)
		})
	}
	for range (len(entities) + durable.LooksTogether - 1) / durable.LooksTogether {
		drv.Group.Go(func() { l.run(drv.Context) })
	}
}

// lookBounds bound the groups of reminders that a node runs at once, because many reminders are due
// at the same time and would delay calls. Against a bound, a group counts for the given multiple of
// the time that it runs, but at most for the time long. So neither a slow store nor methods that
// wait or hang stop other reminders.
var lookBounds = [...]struct {
	most     int
	multiple time.Duration
	long     time.Duration
}{{0, 4, 8 * time.Millisecond}, {32, 1, time.Second}} // 0: half as many as there are processors

// looks runs the due reminders of a node's shards, in groups. The members of a group run at the same
// time, so a shard's part of the group is read, and appended to the log, in few requests.
type looks struct {
	counted [len(lookBounds)]chan struct{} // has an element for each group that counts
	mu      sync.Mutex
	queue   []func() // one for each entity
}

func (l *looks) init() {
	for i, b := range lookBounds {
		l.counted[i] = make(chan struct{}, cmp.Or(b.most, max(1, runtime.GOMAXPROCS(0)/2)))
	}
}

// run runs the next group, if there is one, once the bounds allow it.
func (l *looks) run(ctx context.Context) {
	for i, b := range slices.Backward(lookBounds[:]) { // a wait for the lower bound counts for the higher one alone
		select {
		case l.counted[i] <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		counts := time.AfterFunc(b.long, sync.OnceFunc(func() { <-l.counted[i] }))
		defer func() {
			ran := time.Since(began)
			counts.Reset(min(b.multiple*ran, b.long) - ran)
		}()
	}
	l.mu.Lock()
	n := min(len(l.queue), durable.LooksTogether)
	group := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.mu.Unlock()
	var runs sync.WaitGroup
	for _, f := range group {
		runs.Go(f)
	}
	runs.Wait()
}

// look runs a due reminder of an entity. It returns the time before which the entity's reminders
// need not be run again, in Unix milliseconds. now is the clock of that time.
func (drv *Driver) look(ctx context.Context, k *Kind, id string, now func() int64) (again int64) {
	ctx, cancel := context.WithTimeout(ctx, storedTellPatience)
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
	return now() + lookRetry.Milliseconds()
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
