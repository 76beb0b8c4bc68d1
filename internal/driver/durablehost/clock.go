package durablehost

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/clock"
	"github.com/shardgen/shardgen/store"
)

// A Clock asks the store for the time at intervals of clockPeriod. The interval is clockRetry until
// the first answer, and while the last answers contradict the Clock's estimate.
const (
	clockPeriod = 30 * time.Second
	clockRetry  = time.Second
)

// A Clock estimates the time of a store at one process. Reminders become due and entities expire by
// this time, so the clocks of nodes need not agree. The wall clock of this process is read only
// once, when the Clock is made. Between the store's answers, or always if the store is no
// [store.Clock], a Clock advances by the monotonic clock of the process. A Clock is safe for
// concurrent use.
type Clock struct {
	store store.Clock // nil: the store has no clock
	began time.Time
	view  atomic.Pointer[clockView]

	mu       sync.Mutex // guards estimate, and is held while it is published
	estimate clock.Estimator
}

// A clockView is a Clock's present estimate.
type clockView struct {
	reading clock.Reading
	known   bool
	behind  time.Duration // the most that reading may be behind the store's clock
}

// NewClock returns the Clock of a store. The store's time is not known before the first [Clock.Ask]
// or [Clock.Run]. The store may be nil.
func NewClock(s store.Backend) *Clock {
	c := &Clock{began: time.Now()}
	c.store, _ = s.(store.Clock)
	c.view.Store(&clockView{reading: clock.ReadingAt(c.began, 0), known: c.store == nil})
	return c
}

// Now returns the store's time, and whether that time is known. Before the store's first answer,
// Now returns this process's time. A result may be earlier than the one before: the store's clock
// was set back, or the estimate was corrected, mostly by less than a millisecond.
func (c *Clock) Now() (time.Time, bool) {
	v := c.view.Load()
	return v.reading.At(c.elapsed()), v.known
}

// Ahead returns by how much this process's wall clock is certainly ahead of the store's clock. wall
// is the present time of the wall clock. The result is negative if wall is behind, and 0 if the
// store's time is unknown or too uncertain.
func (c *Clock) Ahead(wall time.Time) time.Duration {
	v, elapsed := c.view.Load(), c.elapsed()
	if !v.known || c.store == nil {
		return 0
	}
	by := wall.Round(0).Sub(v.reading.At(elapsed)) // without the monotonic reading
	if by < 0 {
		return by
	}
	return max(0, by-v.behind)
}

// unsure reports whether the store must be asked again soon, because its time is not known or its
// last answers contradict the estimate.
func (c *Clock) unsure() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.Now()
	return !known || c.estimate.Doubted()
}

// elapsed returns the monotonic time since the Clock was made.
func (c *Clock) elapsed() time.Duration { return time.Since(c.began) }

// A lineClock is the clock of a tenure's core. It follows a [Clock], but has no jumps.
type lineClock struct {
	line clock.Line
	view atomic.Pointer[clock.Reading] // reading of the line, for goroutines without the tenure's lock
}

// now returns the time. The caller holds the tenure's lock.
func (l *lineClock) now(c *Clock) time.Time {
	now := l.line.Now(c.view.Load().reading, c.elapsed())
	if old := l.view.Load(); old == nil || *old != l.line.Reading() { // rarely: this allocates
		r := l.line.Reading()
		l.view.Store(&r)
	}
	return now
}

// read returns the last result of the method now, plus the time since then. It needs no lock.
func (l *lineClock) read(c *Clock) time.Time { return l.view.Load().At(c.elapsed()) }

// Ask asks the store once for its time. If the answer proves that someone has set the store's
// clock, set is how far forward (or, if negative, back). Otherwise set is 0. Ask returns at once if
// the store has no clock.
func (c *Clock) Ask(ctx context.Context) (set time.Duration, err error) {
	if c.store == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	sent := c.elapsed()
	at, err := c.store.Now(ctx)
	received := c.elapsed()
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.estimate.Add(clock.Sample{Sent: sent, Received: received, Store: at})
	old := c.view.Load()
	c.view.Store(&clockView{r, known, c.estimate.Error(received)})
	if by := r.Sub(old.reading); old.known && by.Abs() > clock.Step {
		set = by
	}
	return set, nil
}

// Run asks the store for its time again and again until ctx ends.
func (c *Clock) Run(ctx context.Context, log *slog.Logger) {
	if c.store == nil {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		set, err := c.Ask(ctx)
		switch {
		case set != 0:
			log.Warn("the store's clock was set; due times and expiry follow it", "by", set)
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			if failures%logEach == 0 {
				log.Warn("the store does not give its time; it is asked again", "err", err)
			}
			failures++
		}
		next := clockPeriod
		if c.unsure() {
			next = clockRetry
		}
		timer.Reset(next)
	}
}
