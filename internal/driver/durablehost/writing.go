package durablehost

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/store"
)

const (
	// slowWrite is the duration from which an answered append counts as slow.
	slowWrite = time.Second
	// slowLasts is how long a slow append is reported if no other slow append follows.
	slowLasts = 10 * time.Second
	// slowWait is the wait from which an append without an answer counts as slow.
	slowWait = 2 * time.Second
	// failsFor is how long writes must fail before the failure is reported. Single failed writes
	// are tried again, and not reported.
	failsFor = time.Second
)

// A writing records whether the last writes of a shard failed or were slow. It is safe for
// concurrent use. The zero value is ready for use.
type writing struct {
	failing atomic.Pointer[Writes]
	slow    atomic.Pointer[Writes]
	sent    atomic.Int64 // when the append without an answer was sent, as Unix time in nanoseconds; 0 means none
}

// begun notes that an append was sent.
func (w *writing) begun(at time.Time) { w.sent.Store(at.UnixNano()) }

// Writes says since when and why the writes of a shard fail or are slow.
type Writes struct {
	Since time.Time // of the first failed or slow write in a row
	Err   error     // of the last write; nil means that writes are slow
	Took  time.Duration
	last  time.Time
}

// ended records the outcome of a write. A conflict, a busy store or a too large write is no
// failure.
func (w *writing) ended(a *Appends, err error) {
	if err == nil {
		if now := time.Now().Unix(); a.wrote.Load() != now {
			a.wrote.Store(now)
		}
	}
	if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrTooLarge) {
		if w.failing.Load() != nil {
			w.failing.Store(nil)
		}
		return
	}
	now := time.Now()
	next := &Writes{Since: now, Err: err}
	if was := w.failing.Load(); was != nil {
		next.Since = was.Since
	}
	w.failing.Store(next)
}

// took records how long an append took.
func (w *writing) took(began time.Time, err error) {
	w.sent.Store(0)
	was := w.slow.Load()
	if was == nil && err != nil {
		return
	}
	now := time.Now()
	switch took := now.Sub(began); {
	case took >= slowWrite && err == nil:
		next := &Writes{Since: began, Took: took, last: now}
		if was != nil {
			next.Since = was.Since
		}
		w.slow.Store(next)
	case was != nil:
		w.slow.Store(nil)
	}
}

// Writes reports whether writes of the shard fail or are slow, since when and why. It returns false
// if the shard is not placed here.
func (s *Shard) Writes(now time.Time) (Writes, bool) {
	s.mu.Lock()
	placed := s.placed
	s.mu.Unlock()
	if !placed {
		return Writes{}, false
	}
	if w := s.writing.failing.Load(); w != nil && now.Sub(w.Since) >= failsFor {
		return *w, true
	}
	if at := s.writing.sent.Load(); at != 0 && now.Sub(time.Unix(0, at)) >= slowWait {
		return Writes{Since: time.Unix(0, at), Took: now.Sub(time.Unix(0, at))}, true
	}
	if w := s.writing.slow.Load(); w != nil && now.Sub(w.last) < slowLasts {
		return *w, true
	}
	return Writes{}, false
}

// Wrote returns when the store last took a write of the process, to the second.
func (a *Appends) Wrote() time.Time { return time.Unix(a.wrote.Load(), 0) }
