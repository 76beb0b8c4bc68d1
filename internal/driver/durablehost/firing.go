package durablehost

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
)

// StoreNow returns the store's time, as Unix time in milliseconds. The store's time decides which
// reminders are due, not the time of this process.
func (t *Tenure) StoreNow() int64 {
	now, _ := t.shard.cfg.Clock.Now()
	return now.UnixMilli()
}

// Reminders returns the reminders of an active entity. The caller must not change them.
func (t *Tenure) Reminders(entity string) (all []*wire.DurableReminder) {
	t.look(func(time.Time) { all = t.core.Reminders(entity).GetAll() })
	return all
}

// NextVersion returns the version of an active entity's next commit.
func (t *Tenure) NextVersion(entity string) (next uint64) {
	t.look(func(time.Time) { next = t.core.Version(entity) + 1 })
	return next
}

// Looked records that the host has looked at an entity given to [Host.Look]. again is the Unix time
// in milliseconds before which the host need not look again.
func (t *Tenure) Looked(entity string, again int64) {
	t.do(func(now time.Time) { t.core.Looked(now, entity, again) })
}

// dueLocked queues the entities that have due reminders. It queues none while reminders must not
// run (see [Hold]), before the store's time is known, or once the shard begins to leave.
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

// lookLocked gives the entities that dueLocked has queued to [Host.Look].
func (t *Tenure) lookLocked(after *deferredEffects) {
	if len(t.due) > 0 {
		due := t.due
		t.due = nil
		after.add(func() { t.shard.cfg.Host.Look(t, due) })
	}
}

// untilDueLocked returns the time until dueLocked must be called again. It returns false if
// dueLocked needs no timer.
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

// FiringCommand returns the command of one firing of a reminder. The calls that the firing makes
// are nested in this command. So the calls keep their ids when the firing is tried again.
func FiringCommand(kind, entity string, r *wire.DurableReminder) durable.Command {
	sum := keySum(kind+"/"+entity, fmt.Sprintf("!reminder %s %d %d", r.GetName(), r.GetSet(), r.GetDue()))
	return durable.Command{Source: durable.Source{Incarnation: keySource, Log: hex.EncodeToString(sum[:])}, Number: 1}
}
