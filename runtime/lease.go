package shard

import (
	"sync/atomic"
	"time"
)

// lease says until when this node may run turns and answer: it hears itself
// through the broker, and a majority of the members. It is read at each turn by
// the monotonic clock, so that a process that was stopped and goes on finds it
// over. It is safe for concurrent use.
type lease struct {
	base  time.Time
	until atomic.Int64 // nanoseconds after base; forever: no bound
}

const forever = int64(1<<63 - 1)

func (l *lease) init(base time.Time) {
	l.base = base
	l.until.Store(0)
}

// renew sets the end of the lease; the zero time is none.
func (l *lease) renew(until time.Time) {
	if until.IsZero() {
		l.until.Store(forever)
		return
	}
	l.until.Store(int64(until.Sub(l.base)))
}

// valid reads the clock, unless there is no bound.
func (l *lease) valid() bool {
	until := l.until.Load()
	return until == forever || int64(time.Since(l.base)) < until
}
