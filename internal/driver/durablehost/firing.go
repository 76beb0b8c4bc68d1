package durablehost

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
)

// StoreNow returns the store's time, as a Unix time in milliseconds. Reminders are due by it, and not
// by the time of this process.
func (t *Tenure) StoreNow() int64 {
	now, _ := t.shard.cfg.Clock.Now()
	return now.UnixMilli()
}

// Reminders returns the reminders of an active entity, which are not to be changed.
func (t *Tenure) Reminders(entity string) (all []*wire.DurableReminder) {
	t.look(func(time.Time) { all = t.core.Reminders(entity).GetAll() })
	return all
}

// NextVersion returns the version that an active entity's next commit has.
func (t *Tenure) NextVersion(entity string) (next uint64) {
	t.look(func(time.Time) { next = t.core.Version(entity) + 1 })
	return next
}

// Looked ends a look at an entity that was given to [Host.Look]. again is the time before which it
// is not to be looked at again, as Unix time in milliseconds.
func (t *Tenure) Looked(entity string, again int64) {
	t.do(func(now time.Time) { t.core.Looked(now, entity, again) })
}

// dueLocked takes the entities that have due reminders. Nothing is due while they are paused, and
// before the store's time is known.
func (t *Tenure) dueLocked(now time.Time) {
	if t.core.DueAt() == math.MaxInt64 {
		return
	}
	if held, _ := t.shard.cfg.Hold.holds(); held {
		return
	}
	if clock, known := t.shard.cfg.Clock.Now(); known && t.left == nil {
		t.due = append(t.due, t.core.Due(now, clock.UnixMilli())...)
	}
}

// lookLocked has the host look at the entities that dueLocked has taken.
func (t *Tenure) lookLocked(after *deferredEffects) {
	if len(t.due) > 0 {
		due := t.due
		t.due = nil
		after.add(func() { t.shard.cfg.Host.Look(t, due) })
	}
}

// untilDueLocked returns the time until dueLocked is to be called again, and false if something else
// comes first.
func (t *Tenure) untilDueLocked() (time.Duration, bool) {
	at := t.core.DueAt()
	if at == math.MaxInt64 || t.left != nil {
		return 0, false
	}
	clock, known := t.shard.cfg.Clock.Now()
	d := time.Duration(min(at-clock.UnixMilli(), time.Hour.Milliseconds())) * time.Millisecond
	if held, again := t.shard.cfg.Hold.holds(); held {
		d = max(d, again)
	}
	return d, known
}

// FiringCommand returns the command whose nested calls are those of a firing. They have the same ids
// each time the firing is tried.
func FiringCommand(kind, entity string, r *wire.DurableReminder) durable.Command {
	sum := keySum(kind+"/"+entity, fmt.Sprintf("!reminder %s %d %d", r.GetName(), r.GetSet(), r.GetDue()))
	return durable.Command{Source: durable.Source{Incarnation: keySource, Log: hex.EncodeToString(sum[:])}, Number: 1}
}
