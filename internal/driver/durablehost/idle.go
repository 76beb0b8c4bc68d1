package durablehost

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A shard moves its since so that the store can trim the log of others: once after it has become
// idle, and then seldom. One that is not idle, but too slow to need a checkpoint of its own, does
// so too.
const (
	idleAfter  = time.Minute
	idlePeriod = 10 * time.Minute
)

// An idle is the work of a tenure that no call causes. The tenure's lock guards it.
type idle struct {
	changed time.Time // when something was committed last
	moved   time.Time // when since was moved for the sake of others
	saved   time.Time // when the last checkpoint ended
	mark    int64     // Appends.written at that time
	outages uint64    // at the last look
}

func newIdle(c *Config, now time.Time) idle {
	return idle{changed: now, moved: now, saved: now, mark: c.Appends.written.Load(), outages: outages(c)}
}

// checkpointed notes that a checkpoint has ended.
func (i *idle) checkpointed(c *Config, now time.Time) {
	i.saved, i.mark = now, c.Appends.written.Load()
}

// look looks whether any of it is due.
func (i *idle) look(t *Tenure, now time.Time) {
	i.moveSince(t, now)
	i.verify(t.core, &t.shard.cfg, now)
}

// moveSince moves the since of a shard that holds up the trimming of others.
func (i *idle) moveSince(t *Tenure, now time.Time) {
	idle := now.Sub(i.changed) >= idleAfter && !i.changed.Before(i.moved)
	late := now.Sub(i.saved) >= idlePeriod || t.shard.cfg.Appends.written.Load()-i.mark >= maxHeld
	if (idle || late) && !t.core.Busy() {
		i.moved = now
		t.core.Advance(now)
	}
}

// verify has the core look whether the log still has all, after the store was away.
func (i *idle) verify(core *durable.Shard, c *Config, now time.Time) {
	if n := outages(c); n != i.outages {
		i.outages = n
		core.Verify(now)
	}
}

// An interrupted store counts how often its connection was lost and came back.
type interrupted interface{ Outages() uint64 }

// outages returns a number that grows whenever the store is back after it was away, and may have lost
// acknowledged appends. It does not grow while the store, or a stream of it, is away: appends would be of no
// use there, and would come again and again to the streams that are not.
func outages(c *Config) uint64 { return c.Appends.outages.Load() + Outages(c.Store) }

// Outages returns how often the connection of a store was lost and came back; 0 where the store
// does not say.
func Outages(s store.Shards) uint64 {
	if s, ok := s.(interrupted); ok {
		return s.Outages()
	}
	return 0
}

// Sweep says how the records of entities are deleted of which nothing is left: they have expired
// or ended, and the keys of their commands are too old. Nobody calls these entities again, as a
// rule. Each shard walks through its records, a page of about [store.ListBytes] at a time. A
// process reads one page at a time, over all its shards.
type Sweep struct {
	On bool
	// First is how long a shard is open before its first walk. Default 1 min.
	First time.Duration
	// Pause is between two pages of the process. Default 2 s.
	Pause time.Duration
	// Rest is between two walks of a shard. Default 1 h.
	Rest time.Duration
}

func (s Sweep) withDefaults() Sweep {
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{{&s.First, time.Minute}, {&s.Pause, 2 * time.Second}, {&s.Rest, time.Hour}} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
	return s
}

// sweeps lets one shard of a process after the other read a page. The zero value is ready.
type sweeps struct {
	mu   sync.Mutex
	busy bool
	next time.Time // when the next page may be read
}

// begin reports whether a page may be read now.
func (s *sweeps) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || now.Before(s.next) {
		return false
	}
	s.busy = true
	return true
}

func (s *sweeps) end(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.next = false, time.Now().Add(pause)
}

// A walk is a shard's way through its records. The tenure's lock guards it.
type walk struct {
	due   time.Time      // when the next page is to be read
	after store.Revision // of the last record that was read
	under bool           // a page is being read
}

// next reads the next page, if it is due and the process may.
func (w *walk) next(t *Tenure, now time.Time) {
	c := &t.shard.cfg
	if !c.Sweep.On || w.under || !t.isOpen() {
		return
	}
	if w.due.IsZero() {
		w.due = now.Add(c.Sweep.First)
	}
	if now.Before(w.due) || !c.Appends.sweeps.begin(now) {
		return
	}
	w.under = true
	after := w.after
	c.Host.Go(func() {
		defer c.Appends.sweeps.end(c.Sweep.Pause)
		ctx, cancel := context.WithTimeout(t.ctx, c.Patience)
		defer cancel()
		page, err := c.Store.List(ctx, c.Shard, after)
		t.do(func(now time.Time) { w.done(t, now, page, err) })
	})
}

// done has the core look at the records of a page that seem to be left over.
func (w *walk) done(t *Tenure, now time.Time, page []store.Record, err error) {
	c := &t.shard.cfg
	w.under = false
	var ids []string
	for _, r := range page {
		if len(ids) == store.MaxGet {
			break // the next page begins with this record
		}
		if id, gone := durable.Expired(now, r); gone {
			ids = append(ids, id)
		}
		w.after = r.Revision
	}
	switch {
	case len(ids) > 0:
		t.core.Sweep(now, ids) // what it cannot do now is found by the next walk
	case err != nil:
		w.due = now.Add(c.Sweep.First)
	case len(page) == 0:
		*w = walk{due: now.Add(c.Sweep.Rest)}
	}
}
