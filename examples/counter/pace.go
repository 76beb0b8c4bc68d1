package main

import (
	"context"
	"sync"
	"time"
)

// pace hands out turns to call at a rate, and makes the remaining calls last until the
// members have changed, since the changes must happen under load.
type pace struct {
	interval time.Duration
	changed  <-chan struct{} // closed when the members have changed
	total    int

	mu   sync.Mutex
	used int
	next time.Time
}

// take waits for the next turn to call. It reports false when no call is left
// or ctx has ended.
func (p *pace) take(ctx context.Context) bool {
	at, last, ok := p.reserve(time.Now())
	if !ok {
		return false
	}
	if last {
		select {
		case <-p.changed:
		case <-ctx.Done():
			return false
		}
	}
	wait := time.NewTimer(time.Until(at))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reserve takes one call and returns when it is due.
func (p *pace) reserve(now time.Time) (at time.Time, last, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.total - p.used
	if left == 0 {
		return at, false, false
	}
	p.used++
	at = now
	if p.next.After(at) {
		at = p.next
	}
	interval := p.interval
	select {
	case <-p.changed:
	default: // at most half of the remaining calls in a second, so that some is always left
		interval = max(interval, 2*time.Second/time.Duration(left))
	}
	p.next = at.Add(interval)
	return at, left == 1, true
}

// taken is how many calls were handed out.
func (p *pace) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
