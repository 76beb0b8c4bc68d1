package main

import (
	"context"
	"sync"
	"time"
)

// pace spreads calls evenly, and holds some back until the members have changed, so that members
// change under load.
type pace struct {
	interval time.Duration
	changed  <-chan struct{} // closed when the members have changed
	total    int

	mu   sync.Mutex
	used int
	next time.Time
}

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

// reserve returns when the next call is due, and whether it is the last one. After the last call ok
// is false.
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

func (p *pace) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
