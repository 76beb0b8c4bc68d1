package calls

import (
	"sync"
	"sync/atomic"
)

// A Coalescer counts the calls under way, and the answered calls among them whose callers have not
// run since. Such a caller is likely to call again at once. A goroutine with a frame to publish
// therefore leaves that to the last of these callers, so the calls of all share one frame. It is
// safe for concurrent use. Without it, the p99 of 256 remote callers is 1.3 times as long (What
// each trick buys in bench/README.md).
type Coalescer struct {
	calls atomic.Int64 // under way <<32 | answered, and the caller has not run yet

	mu      sync.Mutex
	delayed []Delayed // sessions that the last caller publishes
	any     atomic.Bool
}

// A Delayed is a session with envelopes whose publishing the Coalescer may delay.
type Delayed interface {
	// Publish must not block, and must not call the Coalescer.
	Publish()
}

const oneUnderWay = 1 << 32

// UnderWay is how many calls are under way: opened, and neither given up nor resumed.
func (f *Coalescer) UnderWay() int64 { return f.calls.Load() >> 32 }

// Woken is how many callers have been woken and have not run since.
func (f *Coalescer) Woken() int32 { return int32(f.calls.Load()) }

// Wake records that n callers are about to be woken. Sessions delayed since then publish now: an
// endless stream of answers delays nothing for long.
func (f *Coalescer) Wake(n int) {
	if f.any.Load() {
		f.release()
	}
	f.calls.Add(int64(n))
}

// Resumed records that a woken caller runs.
func (f *Coalescer) Resumed() {
	if now := f.calls.Add(-oneUnderWay - 1); int32(now) == 0 && f.any.Load() {
		f.release()
	}
}

// GaveUp records that a caller stopped waiting without an answer.
func (f *Coalescer) GaveUp() { f.calls.Add(-oneUnderWay) }

// Delay leaves the session to the last caller that was woken.
func (f *Coalescer) Delay(p Delayed) {
	f.mu.Lock()
	f.delayed = append(f.delayed, p)
	f.mu.Unlock()
	f.any.Store(true)
	if f.Woken() == 0 { // it has passed meanwhile
		f.release()
	}
}

// release publishes the delayed sessions.
func (f *Coalescer) release() {
	f.mu.Lock()
	sessions := f.delayed
	f.delayed = nil
	f.any.Store(false)
	f.mu.Unlock()
	for _, p := range sessions {
		p.Publish()
	}
}
