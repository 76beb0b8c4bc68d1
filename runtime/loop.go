package shard

import (
	"sync"
	"time"
)

// loop runs functions one after another on one goroutine, and a tick when its
// time has come. Posting never blocks.
type loop struct {
	mu     sync.Mutex
	queue  []func()
	signal chan struct{}
}

func newLoop() *loop { return &loop{signal: make(chan struct{}, 1)} }

// post leaves f to be run. After the loop's end it is never run.
func (l *loop) post(f func()) {
	l.mu.Lock()
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// run runs what is posted until stop is closed. tick is called when the time that
// wake returned has come; wake is asked after every batch.
func (l *loop) run(stop <-chan struct{}, tick func(), wake func() time.Time) {
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

func (l *loop) drain(stop <-chan struct{}) {
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
