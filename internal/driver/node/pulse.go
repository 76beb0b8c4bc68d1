package node

import (
	"sync/atomic"
	"time"
)

// A Pulse measures for how long a loop has not run a function that was posted to it. The zero value
// is ready for use. It is safe for concurrent use.
type Pulse struct {
	asked atomic.Int64 // when the function was posted that has not run; 0 means none
}

// Beat posts a function to the loop, unless the last one has not run. now is a time of the
// lease's clock, after 0.
func (p *Pulse) Beat(now int64, post func(func())) {
	if p.asked.CompareAndSwap(0, now) {
		post(func() { p.asked.Store(0) })
	}
}

// Stuck returns how long the last function has waited; 0 if it has run.
func (p *Pulse) Stuck(now int64) time.Duration {
	if asked := p.asked.Load(); asked != 0 {
		return max(time.Duration(now-asked), 0)
	}
	return 0
}
