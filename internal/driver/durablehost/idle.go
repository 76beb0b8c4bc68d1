package durablehost

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A shard advances its [store.Head].Since, the position from which the shard needs its log, so that
// a shared log can be trimmed. It does so in three cases: idleAfter has passed since the last
// commit, idlePeriod has passed since the shard's last checkpoint, or the process has appended
// maxHeld bytes since that checkpoint.
const (
	idleAfter  = time.Minute
	idlePeriod = 10 * time.Minute
)

// An idle is the state of a tenure's periodic work. The tenure's lock guards it.
type idle struct {
	changed time.Time // when the last commit was made
	moved   time.Time // when moveSince last advanced the shard's Since
	saved   time.Time // when the last checkpoint ended
	mark    int64     // Appends.written when the last checkpoint ended
	outages uint64    // outages when the log was last verified
}

func newIdle(c *Config, now time.Time) idle {
	return idle{changed: now, moved: now, saved: now, mark: c.Appends.written.Load(), outages: outages(c)}
}

func (i *idle) checkpointed(c *Config, now time.Time) {
	i.saved, i.mark = now, c.Appends.written.Load()
}

func (i *idle) look(t *Tenure, now time.Time) {
	i.moveSince(t, now)
	i.verify(t.core, &t.shard.cfg, now)
}

// moveSince advances the shard's Since if its present value may keep a shared log from being
// trimmed.
func (i *idle) moveSince(t *Tenure, now time.Time) {
	idle := now.Sub(i.changed) >= idleAfter && !i.changed.Before(i.moved)
	late := now.Sub(i.saved) >= idlePeriod || t.shard.cfg.Appends.written.Load()-i.mark >= maxHeld
	if (idle || late) && !t.core.Busy() {
		i.moved = now
		t.core.Advance(now)
	}
}

// verify makes the core check after each outage that the log has all acknowledged appends.
func (i *idle) verify(core *durable.Shard, c *Config, now time.Time) {
	if n := outages(c); n != i.outages {
		i.outages = n
		core.Verify(now)
	}
}

type interrupted interface{ Outages() uint64 }

// outages returns a number that grows whenever the store is available again after an outage. The
// shard must then check its log, because the store may have lost acknowledged appends. The number
// does not grow during an outage, because a check would be useless.
func outages(c *Config) uint64 { return c.Appends.outages.Load() + Outages(c.Store) }

// Outages returns how often the connection to a store was lost and restored; 0 if the store does
// not count that.
func Outages(s store.Shards) uint64 {
	if s, ok := s.(interrupted); ok {
		return s.Outages()
	}
	return 0
}

// Sweep configures how a shard deletes the records of expired or ended entities. Without a sweep
// these records would stay, because the entities are rarely called again. A record with idempotency
// keys stays until these are too old to matter. Each shard reads its records in pages of about
// [store.ListBytes]; a process reads one page at a time.
type Sweep struct {
	On bool
	// First is how long a shard is open before its first sweep. Default 1 min.
	First time.Duration
	// Pause is the time between two pages of the process. Default 2 s.
	Pause time.Duration
	// Rest is the time between two sweeps of a shard. Default 1 h.
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

// sweeps lets the shards of a process read pages one at a time. The zero value is ready for use.
type sweeps struct {
	mu   sync.Mutex
	busy bool
	next time.Time // when the next page may be read
}

// begin reports whether a page may be read now; if so, the caller must call end.
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

// A walk is the progress of a shard's sweep. The tenure's lock guards it.
type walk struct {
	due   time.Time      // when the next page is to be read
	after store.Revision // revision of the last record that was read
	under bool           // a page is being read
}

// next reads the next page if it is due and no other shard is reading one.
func (w *walk) next(t *Tenure, now time.Time) {
	c := &t.shard.cfg
	if !c.Sweep.On || w.under || !t.isOpen() {
		return
	}
	if w.due.IsZero() {
		w.due = now.Add(c.Sweep.First)
	}
	if now.Before(w.due) || !c.Appends.sweeps.begin(time.Now()) {
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

// done deletes the expired records of a page; see durable.Expired.
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
		t.core.Sweep(now, ids) // the next walk finds the records that the core cannot delete now
	case err != nil:
		w.due = now.Add(c.Sweep.First)
	case len(page) == 0:
		*w = walk{due: now.Add(c.Sweep.Rest)}
	}
}
