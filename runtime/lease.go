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
	phase atomic.Int32
}

const forever = int64(1<<63 - 1)

// The phases of a lease: it is renewed; no turn begins any more, but what has
// run may be answered, for the node left in order; it is over.
const (
	leaseRenewed int32 = iota
	leaseEnding
	leaseOver
)

func (l *lease) init(base time.Time) { l.base = base }

// renew sets the end of the lease; the zero time is none.
func (l *lease) renew(until time.Time) {
	if until.IsZero() {
		l.until.Store(forever)
		return
	}
	l.until.Store(int64(until.Sub(l.base)))
}

// end enters a later phase; there is no way back.
func (l *lease) end(phase int32) {
	for {
		now := l.phase.Load()
		if now >= phase || l.phase.CompareAndSwap(now, phase) {
			return
		}
	}
}

// valid reports whether a turn may begin. It reads the clock, unless there is no
// bound.
func (l *lease) valid() bool {
	until := l.until.Load()
	return until == forever && l.phase.Load() == leaseRenewed || l.validAt(l.now())
}

// validAt is valid for who has just read the clock by now.
func (l *lease) validAt(now int64) bool {
	return l.phase.Load() == leaseRenewed && now < l.until.Load()
}

// now is the monotonic clock: nanoseconds after base.
func (l *lease) now() int64 { return int64(time.Since(l.base)) }

// mayAnswer reports whether what has run may be answered.
func (l *lease) mayAnswer() bool { return l.phase.Load() == leaseEnding || l.valid() }
