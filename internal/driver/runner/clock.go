package runner

import (
	"sync/atomic"
	"time"
)

// A clock is a cheap copy of the lease's clock for short calls. It is late by at most coarseSlack.
// While it is read, the watchdog sets it every millisecond. It is safe for concurrent use. Without
// it, local one-way calls run at 0.4 of their rate (What each trick buys in bench/README.md).
type clock struct {
	at   atomic.Int64 // nanoseconds after the lease's base; 0 means stopped
	read atomic.Bool  // somebody has read the clock since the last tick
}

// coarseSlack is how late the clock may be. Ticks are 1 ms apart, and a busy Go scheduler frees a
// processor every 10 ms. After a stop of the whole process the next tick comes at once.
const coarseSlack = 20 * time.Millisecond

func (c *clock) now() (at int64, ok bool) {
	if !c.read.Load() {
		c.read.Store(true)
	}
	at = c.at.Load()
	return at, at != 0
}

// tick sets the clock to now if somebody has read the clock since the last tick. Otherwise it stops
// the clock, and the next reader must read the real clock.
func (c *clock) tick(now int64) (read bool) {
	if !c.read.Swap(false) {
		c.at.Store(0)
		return false
	}
	c.at.Store(max(now, 1))
	return true
}
