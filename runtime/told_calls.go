package shard

import "sync"

// toldCalls are calls that are used again for the tells of one runner that had to wait. It is
// safe for concurrent use, but for keep.
type toldCalls struct {
	mu    sync.Mutex
	spare []*inCall

	done []*inCall // to become spare; it belongs to the goroutine with the run token
}

// maxSpare is how many calls are kept for tells, and maxSpareArgs the longest
// buffer for arguments that is kept with one.
const (
	maxSpare     = 1 << 12
	maxSpareArgs = 2 << 10
)

// take returns a call to be filled; its args are empty, and may have room.
func (t *toldCalls) take() (c *inCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.spare) - 1
	if last < 0 {
		return new(inCall)
	}
	c, t.spare = t.spare[last], t.spare[:last]
	return c
}

// giveBack makes a call that was taken and did not become a turn spare again.
func (t *toldCalls) giveBack(c *inCall) {
	c.empty()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, c)
	}
}

// keep is recycle for tells: take is to return the call again, and its buffer is used
// again.
func (t *toldCalls) keep(c *inCall) {
	if len(t.done) >= maxSpare {
		return
	}
	c.empty()
	t.done = append(t.done, c)
}

// fewSpare is how many calls are kept for a runner that has nothing to do.
const fewSpare = 64

// collect hands take what keep has kept. With shrink it frees half of the spare ones,
// because a burst is over.
func (t *toldCalls) collect(shrink bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = append(t.spare, t.done[:min(len(t.done), maxSpare-len(t.spare))]...)
	clear(t.done)
	t.done = t.done[:0]
	if shrink {
		n := min(len(t.spare), max(len(t.spare)/2, fewSpare))
		clear(t.spare[n:])
		t.spare = t.spare[:n]
	}
}
