package durable

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/wire"
)

// RunReminders does the same as Run with accounts that set, replace and cancel reminders. In half
// of the runs the server loses what was not on its disk. The store's clock jumps by hours, and each
// home notices the jump later.
func RunReminders(seed uint64, trace func(line string)) Result {
	random := newRandom(seed)
	p := newPlan(random)
	p.reminders = true
	p.index(seed)
	p.skew = min(p.skew, 2*time.Second)
	if p.unsynced = seed%2 == 1; p.unsynced {
		p.ttl, p.sweeps, p.skew = 0, 0, 0
	}
	r := newRun(p, random, trace)
	if p.unsynced {
		r.syncs()
	}
	return r.all()
}

// lateness bounds how long a reminder may wait after its due time, once faults have ended.
const lateness = 5 * time.Second

// setStoreClock sets the clock of the store.
func (r *run) setStoreClock() {
	r.storeSkew = r.between(-3*time.Hour, 3*time.Hour)
	r.counts.ClockSet++
	r.w.trace("the clock of the store is set to %v", r.storeSkew)
	for _, h := range r.homes {
		h.later(r.between(0, 2*time.Second), func() {
			h.storeSkew = h.r.storeSkew
			for _, shard := range h.r.shards() {
				if t := h.tenures[shard]; t != nil {
					t.step()
				}
			}
		})
	}
}

// storeNow returns the store's time as the home knows it.
func (h *home) storeNow() int64 { return h.r.w.clock().Add(h.storeSkew).UnixMilli() }

// remind changes the reminders in a turn that changes the account.
func (a *account) remind(turn *durable.Turn) {
	r := a.t.home.r
	if !r.plan.reminders || turn.Ended {
		return
	}
	if a.fresh || r.w.chance(0.4) || r.calm {
		return
	}
	all := reminders.List(a.t.core.Reminders(a.id).GetAll())
	name := fmt.Sprintf("r%d", r.w.random.IntN(3))
	if r.w.chance(0.3) {
		turn.Reminders = all.Without(name).Message()
		return
	}
	request := &wire.DurableSchedule{Reminder: &wire.DurableReminder{Name: name, Method: "m", Kind: uint32(schedule.KindOnce)}}
	switch delay := r.between(-time.Second, 4*time.Second); {
	case r.w.chance(0.3):
		request.Reminder.Kind, request.Reminder.Period = uint32(schedule.KindEvery), 1500
	case r.w.chance(0.1):
		request.After = r.between(time.Second, 2*time.Hour).Milliseconds()
	default:
		request.Reminder.Due = a.t.home.storeNow() + delay.Milliseconds()
	}
	all, err := all.Set(request, a.id, a.version+1, a.t.home.storeNow())
	if err != nil {
		r.w.fail("%v", err)
	}
	turn.Reminders = all.Message()
	r.counts.Reminders++
}

// fire activates the account because a reminder may be due, and runs that reminder.
func (a *account) fire() {
	t, r, now := a.t, a.t.home.r, a.t.home.storeNow()
	all := reminders.List(t.core.Reminders(a.id).GetAll())
	look := t.retries.Look(a.id, all, now, time.Hour.Milliseconds(), func(string) bool { return true })
	failed := r.w.chance(0.05)
	if look.Run == nil || failed {
		r.counts.Looks++
		t.core.Looked(t.home.clock.now(), a.id, look.Again)
		a.end()
		return
	}
	turn := durable.Turn{Entity: a.id, State: a.state(a.balance, 0), Form: t.home.form, Expires: t.home.expiry(), Reminders: all.Replaced(look.Run, look.Following).Message(), Index: t.home.keys(a.balance)}
	_, err := t.core.Commit(t.home.clock.now(), &turn)
	if err != nil {
		r.w.fail("%v", err)
		return
	}
	t.retries.Succeeded(a.id, look.Run)
	r.judge.fires[fireKey(turnKey(t.shard, t.home.incarnation, t.core.Epoch(), commandKey(nil)), a.id, a.version+1)] = look.Run
	a.version, a.expires = a.version+1, turn.Expires
	t.core.Looked(t.home.clock.now(), a.id, 0)
	a.end()
}

func fireKey(turn, id string, version uint64) string {
	return fmt.Sprintf("%s %s %d", turn, id, version)
}

// remindersOf returns the reminders of an entity after c, whose preceding commit is before.
func (j *judge) remindersOf(before commit, c *wire.DurableCommit) *wire.DurableReminders {
	if c.GetFolded() && c.GetReminders() == nil {
		return before.reminders
	}
	return c.GetReminders()
}

// fired checks a commit without a command: its turn must have run a reminder of its entity.
func (j *judge) fired(t *truth, before commit, c *wire.DurableCommit, turn string) error {
	f := j.fires[fireKey(turn, string(c.GetEntity()), c.GetVersion())]
	if f == nil {
		return fmt.Errorf("%s v%d has no command, and was not fired by its home", c.GetEntity(), c.GetVersion())
	}
	if t.crashed { // the home may have commits that the log has lost
		return nil
	}
	for _, m := range before.reminders.GetAll() {
		if m.GetName() == f.GetName() && m.GetSet() == f.GetSet() && m.GetDue() == f.GetDue() {
			j.firings++
			return nil
		}
	}
	return fmt.Errorf("%s v%d fires %v, which is not among %v", c.GetEntity(), c.GetVersion(), f, before.reminders)
}

// reminded reports whether every reminder that is due has fired.
func (r *run) reminded() bool {
	now := r.w.clock().Add(r.storeSkew - lateness).UnixMilli()
	for _, shard := range r.shards() {
		t := r.judge.shards[shard]
		if t.tainted || t.crashed {
			continue
		}
		for id, all := range t.entities { //arch:order-free whether all have
			last := all[len(all)-1]
			if r.judge.gone(last) {
				continue
			}
			for _, m := range last.reminders.GetAll() {
				if m.GetDue() < now {
					r.missing = fmt.Sprintf("%s: %v", id, m)
					return false
				}
			}
		}
	}
	return true
}
