// Package turnlease says until when a process may run turns.
package turnlease

import (
	"sync/atomic"
	"time"
)

// A Lease says until when a node may run turns and answer: it hears itself through the broker, and
// a majority of the members. It is read at each turn by the monotonic clock, so that a process
// finds it expired after standing still. It is safe for concurrent use, but for Init.
type Lease struct {
	base  time.Time
	until atomic.Int64 // nanoseconds after base; forever: no bound
	phase atomic.Int32
}

const forever = int64(1<<63 - 1)

// A Phase is a part of the life of a lease. Phases follow each other in this order.
type Phase int32

// The phases.
const (
	Renewed Phase = iota // turns may begin while the lease lasts
	Closing              // no turn begins any more; what runs may be answered while the lease lasts
	Ending               // no turn begins any more; what has run may be answered, for the node left in order
	Over                 // nothing is answered any more
)

// Init sets the time from which the lease's clock counts. The lease is over until it is
// renewed.
func (l *Lease) Init(base time.Time) { l.base = base }

// Base returns the time from which the lease's clock counts.
func (l *Lease) Base() time.Time { return l.base }

// Renew sets the end of the lease; the zero time is none.
func (l *Lease) Renew(until time.Time) {
	if until.IsZero() {
		l.until.Store(forever)
		return
	}
	l.until.Store(int64(until.Sub(l.base)))
}

// End enters a later phase. There is no way back.
func (l *Lease) End(phase Phase) {
	for {
		now := l.phase.Load()
		if now >= int32(phase) || l.phase.CompareAndSwap(now, int32(phase)) {
			return
		}
	}
}

// Phase returns the phase of the lease.
func (l *Lease) Phase() Phase { return Phase(l.phase.Load()) }

// Bounded reports whether the lease has an end.
func (l *Lease) Bounded() bool { return l.until.Load() != forever }

// Valid reports whether a turn may begin. It reads the clock, unless there is no
// bound.
func (l *Lease) Valid() bool {
	return !l.Bounded() && l.Phase() == Renewed || l.ValidAt(l.Now())
}

// ValidAt reports whether a turn may begin at a time of the lease's clock.
func (l *Lease) ValidAt(now int64) bool {
	return l.Phase() == Renewed && now < l.until.Load()
}

// Now is the lease's clock, which is monotonic: nanoseconds after its base.
func (l *Lease) Now() int64 { return int64(time.Since(l.base)) }

// MayAnswer reports whether a turn that has run may be answered.
func (l *Lease) MayAnswer() bool { return l.Phase() == Ending || l.Lasts() }

// Lasts reports whether the node has contact with the others: the lease is not over, although turns
// may not begin in the phase Closing.
func (l *Lease) Lasts() bool {
	return l.Phase() < Ending && (!l.Bounded() || l.Now() < l.until.Load())
}
