package durablehost

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

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
