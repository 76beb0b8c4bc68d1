package shard

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/turnlease"
)

// coarseClock is the lease's clock, a millisecond old, for calls that are too short
// to read the real one: that takes as long as half of all else they do. The watchdog
// sets it every millisecond as long as somebody reads it. No call writes anything
// that others read, but for one a tick. It is safe for concurrent use.
type coarseClock struct {
	at   atomic.Int64 // nanoseconds after the lease's base; 0: it stands still
	read atomic.Bool  // since the last tick
}

// coarseSlack is by how much the clock may be wrong. Ticks are a millisecond apart.
// Where goroutines that never wait keep all processors busy, timers are looked at
// when the Go scheduler takes a processor from them, each 10 ms. A process that was
// stopped and goes on may begin turns until its clock's next tick. That tick is
// overdue then, and the time slice of everything that runs is over, so the scheduler
// comes to it at once.
const coarseSlack = 20 * time.Millisecond

// now is the clock; ok is false when it stands still.
func (c *coarseClock) now() (at int64, ok bool) {
	if !c.read.Load() {
		c.read.Store(true)
	}
	at = c.at.Load()
	return at, at != 0
}

// tick sets the clock if somebody has read it since the last tick, and reports that.
// Else it stands still, and readers take the real one until the next tick.
func (c *coarseClock) tick(now int64) (read bool) {
	if !c.read.Swap(false) {
		c.at.Store(0)
		return false
	}
	c.at.Store(max(now, 1))
	return true
}

// mayRunInline is mayRun for a turn on its caller's goroutine: by the coarse clock
// if the lease lasts longer than that can be wrong.
func (s *hostedShard) mayRunInline() bool {
	pl := s.plane()
	if !validByCoarse(&pl.lease, &pl.watch) && !pl.lease.Valid() {
		return false
	}
	return s.host.instance == nil || s.host.instance.LeaseValid()
}

// validByCoarse reports whether a turn may begin for certain by the lease, without
// reading the real clock.
func validByCoarse(l *turnlease.Lease, w *watchdog) bool {
	if !l.Bounded() {
		return l.Phase() == turnlease.Renewed
	}
	at, ok := w.clock.now()
	if !ok {
		w.awake()
		return false
	}
	return l.ValidAt(at + int64(coarseSlack))
}
