package runner

import (
	"sync/atomic"
	"time"
)

// A clock is a copy of the lease's clock for short calls, up to coarseSlack late. The watchdog sets
// it every millisecond while somebody reads it. It is safe for concurrent use. Without it, local
// one-way calls run at 0.4 of their rate (What each trick buys in bench/README.md).
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

// tick sets the clock if somebody read it since the last tick; otherwise it stops the clock, and
// readers use the real one.
func (c *clock) tick(now int64) (read bool) {
	if !c.read.Swap(false) {
		c.at.Store(0)
		return false
	}
	c.at.Store(max(now, 1))
	return true
}
