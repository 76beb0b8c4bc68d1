package shard

import (
	"sync"
	"sync/atomic"
)

// coalescer counts the calls under way and, among them, those that are answered but
// whose callers have not run since. Such a caller is likely to call again in a
// moment, so who has a frame to publish leaves it to the last of them: then the
// calls of all share one. It is safe for concurrent use.
type coalescer struct {
	calls atomic.Int64 // under way <<32 | answered, and the caller has not run yet

	mu      sync.Mutex
	delayed []*peerSession // sessions that the last caller publishes
	any     atomic.Bool
}

const oneUnderWay = 1 << 32

func (f *coalescer) begin()          { f.calls.Add(oneUnderWay) }
func (f *coalescer) underWay() int64 { return f.calls.Load() >> 32 }
func (f *coalescer) woken() int32    { return int32(f.calls.Load()) }

// wake notes that n callers are about to be woken. What is delayed since the
// ones before goes now, so that an endless stream of answers delays nothing for
// long.
func (f *coalescer) wake(n int) {
	if f.any.Load() {
		f.release()
	}
	f.calls.Add(int64(n))
}

// resumed notes that a caller runs that was woken.
func (f *coalescer) resumed() {
	if now := f.calls.Add(-oneUnderWay - 1); int32(now) == 0 && f.any.Load() {
		f.release()
	}
}

// gaveUp notes that a caller stopped waiting without an answer.
func (f *coalescer) gaveUp() { f.calls.Add(-oneUnderWay) }

// delay leaves the session to the last caller that was woken.
func (f *coalescer) delay(p *peerSession) {
	f.mu.Lock()
	f.delayed = append(f.delayed, p)
	f.mu.Unlock()
	f.any.Store(true)
	if f.woken() == 0 { // it has passed meanwhile
		f.release()
	}
}

// release has the delayed sessions published.
func (f *coalescer) release() {
	f.mu.Lock()
	paths := f.delayed
	f.delayed = nil
	f.any.Store(false)
	f.mu.Unlock()
	for _, p := range paths {
		p.pump()
	}
}
