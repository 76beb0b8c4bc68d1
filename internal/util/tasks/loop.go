package tasks

import (
	"sync"
	"time"
)

// A Loop runs posted functions on one goroutine, one after another. On the same goroutine it runs a
// tick whenever the tick is due, but not in the middle of a function.
type Loop struct {
	mu     sync.Mutex
	queue  []func()
	signal chan struct{}
}

// NewLoop returns a Loop without posted functions.
func NewLoop() *Loop { return &Loop{signal: make(chan struct{}, 1)} }

// Post queues f for Run. It does not block, and any goroutine may call it. If Run has returned, f
// never runs.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Run runs posted functions, and tick when it is due, until stop is closed. After each batch of
// functions and after each tick it calls wake, which returns the time of the next tick. The zero
// time means in an hour.
func (l *Loop) Run(stop <-chan struct{}, tick func(), wake func() time.Time) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-l.signal:
		case <-timer.C:
			tick()
		}
		l.drain(stop)
		if at := wake(); !at.IsZero() {
			timer.Reset(max(time.Until(at), 0))
		} else {
			timer.Reset(time.Hour)
		}
	}
}

func (l *Loop) drain(stop <-chan struct{}) {
	l.mu.Lock()
	batch := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, f := range batch {
		select {
		case <-stop:
			return
		default:
			f()
		}
	}
}
