package calls

import (
	"sync"
	"sync/atomic"
)

// A Coalescer decides when envelopes of calls are published, so that calls made together share a
// frame. It counts the running calls. It also counts callers that were woken by an answer and have
// not run yet: such a caller will probably make its next call at once. So a goroutine that has a
// frame to publish leaves the publishing to the last of the woken callers. A Coalescer is safe for
// concurrent use. Without it, the p99 latency of 256 remote callers is 1.3 times as long (What each
// trick buys in bench/README.md).
type Coalescer struct {
	calls atomic.Int64 // running <<32 | answered, but the caller has not run yet

	mu      sync.Mutex
	delayed []Delayed // sessions that the last woken caller will publish
	any     atomic.Bool
}

// A Delayed is a session with envelopes whose publishing the Coalescer may delay.
type Delayed interface {
	// Publish must not block, and must not call the Coalescer.
	Publish()
}

const oneUnderWay = 1 << 32

// UnderWay returns the number of running calls: those that were opened and whose callers have
// neither given up nor resumed.
func (f *Coalescer) UnderWay() int64 { return f.calls.Load() >> 32 }

// Woken returns the number of callers that were woken and have not run yet.
func (f *Coalescer) Woken() int32 { return int32(f.calls.Load()) }

// Wake records that n callers are about to be woken. Before that, it publishes the delayed
// sessions: otherwise a steady stream of answers could delay these sessions for long.
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

// Delay leaves the publishing of session p to the last woken caller. If no woken caller is left, it
// publishes p at once.
func (f *Coalescer) Delay(p Delayed) {
	f.mu.Lock()
	f.delayed = append(f.delayed, p)
	f.mu.Unlock()
	f.any.Store(true)
	if f.Woken() == 0 { // the last woken caller has run meanwhile
		f.release()
	}
}

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
