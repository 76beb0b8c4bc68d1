package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// In makes a tell a reminder: its method runs once, after d. See [At].
func In(d time.Duration) CallOption {
	return due(schedule.KindOnce, func(o *codegen.Delay) { o.After = d })
}

// At makes a tell a reminder: the entity keeps the tell, and its method runs once, at time t. If
// the entity's shard has no home at t, the method runs as soon as the shard has one. If the tell is
// made in a turn of a durable type, the reminder is part of that turn's commit. Otherwise the tell
// returns when the entity has the reminder; a durable entity has then committed it.
//
// A reminder has the name of its method, unless [Named] gives it another. A later reminder of the
// same name replaces the earlier one, and Unschedule cancels a reminder. An entity has at most 64
// reminders, of 16 KiB together; a tell beyond that fails. Singletons and pools have no reminders,
// so tells to them with [In], At, [Every] or [Cron] fail. These options are for tells, so all calls
// of a Ref with them fail too.
//
// In a durable type, the commit of the turn that runs a reminder also removes the reminder, so the
// reminder takes effect once. In other types, reminders are in memory, and move or are lost with
// the entity's state. If the method panics or returns an error of [TryAgain], the reminder runs
// again after 1 s, then after twice as long each time, up to 5 min; in a durable type, the changes
// of the failed turn are dropped. After an hour and at least five tries the reminder is given up.
// If it has later due times, it goes on with the next one; otherwise it stays among the entity's
// reminders. After any other error the changes are committed.
//
// Due times are in milliseconds of the store's clock or, without a store, of the node's clock, up to
// the year 9999. An entity with reminders does not expire. [Forget] drops the entity's reminders.
func At(t time.Time) CallOption {
	return due(schedule.KindOnce, func(o *codegen.Delay) { o.At = t })
}

// Every makes a tell a reminder that runs once each period, for the first time one period after the
// turn that sets it. The period is at least 1 s. If the reminder cannot run at some due times, it
// later runs once for all of them, unless [CatchUpEach] or [SkipLate] says otherwise. See [At].
func Every(period time.Duration) CallOption {
	return due(schedule.KindEvery, func(o *codegen.Delay) { o.Period = period })
}

// Cron makes a tell a reminder that runs at the times that text describes, in the local time of
// zone, such as "Europe/Berlin"; "" means UTC. text has the five fields of crontab(5): minute,
// hour, day of the month, month, day of the week. A local time that is skipped when the clock is
// set forward is due at that moment, and one that comes twice is due the first time. If the minute
// or the hour begins with "*", skipped times are left out, and times that come twice are due twice.
// These are the rules of ISC cron. See [At] and [Every].
func Cron(text, zone string) CallOption {
	return due(schedule.KindCron, func(o *codegen.Delay) { o.Cron, o.Zone = text, zone })
}

// Named gives a reminder a name, so that an entity can have several of one method. A name has 1 to
// 64 bytes.
func Named(name string) CallOption {
	return delayed(func(o *codegen.Delay) {
		if o.Name = name; name == "" || len(name) > maxReminderName {
			o.Err = fmt.Errorf("shard.Named: the name has %d bytes (want 1 to %d)", len(name), maxReminderName)
		}
	})
}

const maxReminderName = 64

// Jitter delays a reminder's due times by less than limit, so that the reminders of many entities
// do not run at one moment. The delay depends only on the entity and the reminder's name.
func Jitter(limit time.Duration) CallOption {
	return delayed(func(o *codegen.Delay) {
		if o.Jitter = limit; limit < 0 {
			o.Err = fmt.Errorf("shard.Jitter: the limit is %v (want at least 0)", limit)
		}
	})
}

// CatchUpEach makes a reminder run once for each due time that it has missed, but at most for the
// first and the last 999.
func CatchUpEach() CallOption { return delayed(func(o *codegen.Delay) { o.CatchUp = true }) }

// SkipLate makes a reminder skip a due time if the reminder cannot run within limit after that
// time. limit is at least 1 ms.
func SkipLate(limit time.Duration) CallOption {
	return delayed(func(o *codegen.Delay) {
		if o.SkipLate = limit; limit < time.Millisecond {
			o.Err = fmt.Errorf("shard.SkipLate: the limit is %v (want at least 1ms)", limit)
		}
	})
}

func due(kind schedule.Kind, set func(*codegen.Delay)) CallOption {
	return delayed(func(o *codegen.Delay) {
		if o.Kind != 0 {
			o.Err = errors.New("shard: a tell has several due times (use one of In, At, Every and Cron)")
		}
		o.Kind = uint8(kind)
		set(o)
	})
}

func delayed(set func(*codegen.Delay)) CallOption {
	return func(o *codegen.CallOptions) {
		delay := codegen.Delay{}
		if o.Delay != nil {
			delay = *o.Delay
		}
		set(&delay)
		o.Delay = &delay
	}
}

// ErrNoReminders means that [Unschedule] or [Scheduled] was called outside a turn, or in a turn of
// a singleton or pool.
var ErrNoReminders = node.ErrNoReminders

// Unschedule cancels a reminder, by its name, of the entity whose turn ctx belongs to. In a durable
// type the cancellation is part of the turn's commit; in other types it takes effect at once.
// Unschedule reports whether the entity had a reminder of this name. It fails in a method marked
// //shard:read. It fails with [ErrNoReminders] outside a turn, and in turns of singletons and
// pools.
func Unschedule(ctx context.Context, name string) (there bool, err error) {
	return node.Unschedule(ctx, name)
}

// A Reminder is a reminder that an entity has. If it was given up, GivenUp says why: see [At].
type Reminder = operator.Reminder

// Scheduled returns the reminders of the entity whose turn ctx belongs to, with the turn's own
// changes to them. It fails with [ErrNoReminders] outside a turn and in turns of singletons and
// pools.
func Scheduled(ctx context.Context) ([]Reminder, error) {
	all, err := node.Scheduled(ctx)
	return operator.RemindersOf(all), err
}

// A Firing describes the reminder whose method runs.
type Firing struct {
	Name   string
	Due    time.Time     // when it was due
	Late   time.Duration // from Due to the turn's begin
	Missed int           // later due times already passed, for which it does not run again
}

// Fired returns the reminder that the turn of ctx runs. It reports false if the method was called
// otherwise.
func Fired(ctx context.Context) (Firing, bool) {
	f, ok := node.FiredReminder(ctx)
	return Firing(f), ok
}

// TryAgain returns an error with which a method asks to be run again. In a durable type the turn's
// changes are dropped. A reminder then runs again later, and a tell from a turn of a durable type
// is delivered again. Other tells are not, because nothing keeps them. A call fails with outcome
// NotExecuted. In types that are not durable only reminders run again, and no changes are dropped.
// TryAgain returns nil if err is nil.
func TryAgain(err error) error {
	if err == nil {
		return nil
	}
	return &tryAgain{err}
}

type tryAgain struct{ err error }

func (e *tryAgain) Error() string        { return "shard.TryAgain: " + e.err.Error() }
func (e *tryAgain) Unwrap() error        { return e.err }
func (e *tryAgain) Is(target error) bool { return target == node.ErrTryAgain }

// SelfTell is called by generated code only: it returns the reference for tells to the entity whose
// turn ctx belongs to.
func SelfTell(ctx context.Context, kind string, opts ...CallOption) *codegen.Ref {
	by, id, err := node.Self(ctx, kind)
	if err != nil {
		return codegen.NewRef(nobody{}, kind, err, opts...)
	}
	return codegen.NewRef(by, id, nil, opts...)
}

// nobody is the invoker of a reference made outside a turn: all tells fail with the reference's
// error.
type nobody struct{ codegen.Invoker }

// Send implements codegen.Invoker.
func (nobody) Send(_ context.Context, r *codegen.Ref, method string, args []byte) error {
	codegen.Recycle(args)
	return &CallError{Kind: r.ID, Method: method, Outcome: NotExecuted, Err: r.Err()}
}

// Failed implements codegen.Invoker.
func (nobody) Failed(r *codegen.Ref, method string, _ bool, _ error) error {
	return &CallError{Kind: r.ID, Method: method, Outcome: NotExecuted, Err: r.Err()}
}

// UnscheduleOf is called by generated code only.
func UnscheduleOf(ctx context.Context, r *codegen.Ref, name string) (there bool, err error) {
	out, err := askReminders(ctx, r, wire.MethodUnschedule, []byte(name))
	return err == nil && len(out) > 0 && out[0] != 0, err
}

// ScheduledOf is called by generated code only.
func ScheduledOf(ctx context.Context, r *codegen.Ref) ([]Reminder, error) {
	out, err := askReminders(ctx, r, wire.MethodScheduled, nil)
	if err != nil {
		return nil, err
	}
	all, err := operator.DecodeReminders(out)
	if err != nil {
		return nil, r.Invoker.Failed(r, wire.MethodScheduled, true, err)
	}
	return all, nil
}

func askReminders(ctx context.Context, r *codegen.Ref, method string, args []byte) ([]byte, error) {
	if err := r.Invoker.Check(ctx, r, method); err != nil {
		return nil, err
	}
	return r.Invoker.Do(ctx, r, method, append(codegen.NewArgs(), args...))
}
