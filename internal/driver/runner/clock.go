package runner

import (
	"sync/atomic"
	"time"
)

// A clock is the lease's clock, up to coarseSlack late. Short calls use it, because reading the
// real clock takes half as long as the rest of such a call. The watchdog sets it every millisecond
// as long as somebody reads it. In each tick only one call writes to memory that other calls read.
// It is safe for concurrent use. Without it, local one-way calls run at 0.4 of their rate (What
// each trick buys in bench/README.md).
type clock struct {
	at   atomic.Int64 // nanoseconds after the lease's base; 0 means it stands still
	read atomic.Bool  // somebody has read the clock since the last tick
}

// coarseSlack is how late the clock may be. Ticks are 1 ms apart. If goroutines that never wait
// keep all processors busy, a tick waits for the Go scheduler, which takes a processor from one of
// them every 10 ms. After a stop of the whole process, turns may begin by the old time until the
// next tick. That tick comes at once, because it is overdue and the time slices of all running
// goroutines have ended.
const coarseSlack = 20 * time.Millisecond

// now returns the clock's time. ok is false if the clock stands still.
func (c *clock) now() (at int64, ok bool) {
	if !c.read.Load() {
		c.read.Store(true)
	}
	at = c.at.Load()
	return at, at != 0
}

// tick sets the clock to now if somebody has read the clock since the last tick, and reports whether
// somebody has. If nobody has, tick stops the clock, and readers use the real clock until the next
// tick.
func (c *clock) tick(now int64) (read bool) {
	if !c.read.Swap(false) {
		c.at.Store(0)
		return false
	}
	c.at.Store(max(now, 1))
	return true
}
