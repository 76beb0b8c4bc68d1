package runtoken

import (
	"sync/atomic"
	"time"
)

// A clock is the lease's clock, up to a millisecond old, for short calls: reading the real one
// takes half as long as the rest of the call. The watchdog sets it every millisecond as long as
// somebody reads it. No call writes anything that others read, except one a tick. It is safe for
// concurrent use. Without it, local one-way calls run at 0.4 of their rate (What each trick buys in
// bench/README.md).
type clock struct {
	at   atomic.Int64 // nanoseconds after the lease's base; 0 means it stands still
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
func (c *clock) now() (at int64, ok bool) {
	if !c.read.Load() {
		c.read.Store(true)
	}
	at = c.at.Load()
	return at, at != 0
}

// tick sets the clock if somebody has read it since the last tick, and reports that.
// Else it stands still, and readers take the real one until the next tick.
func (c *clock) tick(now int64) (read bool) {
	if !c.read.Swap(false) {
		c.at.Store(0)
		return false
	}
	c.at.Store(max(now, 1))
	return true
}
