package reminders

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of tries; times are in milliseconds.
const (
	retryFirst = 1000
	retryMax   = 5 * 60 * 1000
	// retryUnknown is the time after which a reminder of an unknown method is looked at again.
	retryUnknown = 30 * 1000
	// triesAtLeast is the least number of tries before a reminder is given up.
	triesAtLeast = 5
	// fewRetries is the number of failed reminders up to which none is dropped.
	fewRetries = 256
)

// Retries are the reminders of a shard that have failed at this home. The zero value is empty.
type Retries struct {
	of   map[retryKey]retry
	kept int // how many the last prune has kept
}

type retryKey struct{ entity, name string }

type retry struct {
	set   uint64
	due   int64
	tries int
	since int64 // first try
	next  int64
}

// A Look says what a turn does about the reminders of its entity.
type Look struct {
	// Run is the reminder to run; nil means none. Until Succeeded is called, it counts as failed.
	Run *wire.DurableReminder
	// Ended is a reminder that is to be replaced with Following without running, because it is too
	// late (SkipLate) or given up.
	Ended   *wire.DurableReminder
	GivenUp bool
	// Following replaces Run or Ended; nil means that nothing does.
	Following *wire.DurableReminder
	Missed    int // due times that have passed since that of Run
	Tries     int // earlier tries of Run or Ended
	// Err is why a due reminder cannot run. That reminder waits, and another one may run now.
	Err error
	// Again is the time before which the entity is not to be looked at again; 0 means any.
	Again int64
}

// Look chooses, of an entity's due reminders, the earliest that does not wait for its next try. A
// reminder whose method is not known waits, and does not delay others. A reminder is given up after
// triesAtLeast failures over at least patience milliseconds.
func (r *Retries) Look(entity string, all List, now, patience int64, known func(method string) bool) (l Look) {
	var wrong error // why the earliest reminder cannot run
	for {
		m, tried, again := r.choose(entity, all, now)
		if m == nil {
			return Look{Err: wrong, Again: again}
		}
		l, err := r.plan(entity, m, tried, now, patience, known)
		if err == nil {
			l.Err = wrong
			return l
		}
		r.later(entity, m, tried, now+retryUnknown) // so another one is chosen
		if wrong == nil {
			wrong = fmt.Errorf("reminder %q: %w", m.GetName(), err)
		}
	}
}

// plan decides whether m, a due reminder, runs, is skipped or is given up.
func (r *Retries) plan(entity string, m *wire.DurableReminder, tried retry, now, patience int64, known func(method string) bool) (l Look, err error) {
	plan, due, clock := scheduleOf(m), time.UnixMilli(m.GetDue()), time.UnixMilli(now)
	next, missed, err := plan.Next(due, clock)
	if err == nil && !known(m.GetMethod()) {
		err = fmt.Errorf("there is no method %q (run a program that has it: until then the reminder waits)", m.GetMethod())
	}
	if err != nil {
		return l, err
	}
	l = Look{Missed: missed, Tries: tried.tries}
	if !next.IsZero() {
		l.Following = proto.Clone(m).(*wire.DurableReminder)
		l.Following.Due = next.UnixMilli()
	}
	switch {
	case plan.Skip(due, clock):
		l.Ended = m
	case tried.tries >= triesAtLeast && now-tried.since >= patience:
		l.Ended, l.GivenUp = m, true
		if l.Following == nil {
			l.Following = proto.Clone(m).(*wire.DurableReminder)
			l.Following.Aside = fmt.Sprintf("it failed %d times", tried.tries)
		}
	default:
		l.Run = m
		pause := min(retryFirst<<min(tried.tries, 20), retryMax)
		tried.tries++
		r.later(entity, m, tried, now+int64(pause))
		return l, nil
	}
	r.Succeeded(entity, m)
	return l, nil
}

// choose returns the reminder to run, and its earlier tries. If some due reminder waits for its
// next try, again is when to look again: at the first such try or the next due time. Otherwise
// again is 0.
func (r *Retries) choose(entity string, all List, now int64) (m *wire.DurableReminder, tried retry, again int64) {
	soon := int64(math.MaxInt64) // the first due time that is not reached yet
	for _, one := range all {
		if one.GetAside() == "" && one.GetDue() > now {
			soon = min(soon, one.GetDue())
		}
		if one.GetAside() != "" || one.GetDue() > now || m != nil && m.GetDue() <= one.GetDue() {
			continue
		}
		key := retryKey{entity, one.GetName()}
		old, failed := r.of[key]
		if failed && (old.set != one.GetSet() || old.due != one.GetDue()) {
			delete(r.of, key)
			old = retry{}
		}
		if old.next > now && old.next <= now+retryMax { // if it is later, the clock was set back
			if again == 0 || old.next < again {
				again = old.next
			}
			continue
		}
		if old.since = min(old.since, now); old.tries == 0 {
			old.since = now
		}
		m, tried = one, old
	}
	if again != 0 {
		again = min(again, soon)
	}
	return m, tried, again
}

func (r *Retries) later(entity string, m *wire.DurableReminder, tried retry, next int64) {
	tried.set, tried.due, tried.next = m.GetSet(), m.GetDue(), next
	if r.of == nil {
		r.of = map[retryKey]retry{}
	}
	r.of[retryKey{entity, m.GetName()}] = tried
	if len(r.of) > 2*r.kept+fewRetries {
		r.prune(tried.next)
	}
}

// prune forgets the failed reminders that should have been tried more than 2*retryMax before now.
// They were cancelled, or their entity has moved away: otherwise this node would have tried them.
func (r *Retries) prune(now int64) {
	//arch:order-free each by itself
	for key, tried := range r.of {
		if tried.next < now-2*retryMax {
			delete(r.of, key)
		}
	}
	r.kept = len(r.of)
}

// Succeeded ends the tries of a reminder.
func (r *Retries) Succeeded(entity string, m *wire.DurableReminder) {
	delete(r.of, retryKey{entity, m.GetName()})
}
