package runner

import (
	"sync/atomic"
	"time"
)

// A Lease says until when a node may run turns and answer calls. The node renews its lease while it
// hears a majority of the members and the broker returns its own messages. Each turn compares the
// lease with the monotonic clock, so a process that was paused finds its lease expired. All methods
// except Init are safe for concurrent use.
type Lease struct {
	base  time.Time
	until atomic.Int64 // nanoseconds after base; forever means no end
	phase atomic.Int32
}

const forever = int64(1<<63 - 1)

// A Phase is a stage in the life of a lease. The phases follow each other in the order of the
// constants.
type Phase int32

// The phases of a lease, in the order in which they follow each other.
const (
	Renewed Phase = iota // turns may begin while the lease lasts
	Closing              // no turn begins any more; running turns may be answered while the lease lasts
	Ending               // no turn begins any more; turns that ran may be answered, because the node left gracefully
	Over                 // no turn is answered any more
)

// Init sets the base of the lease's clock. The lease is not valid until Renew.
func (l *Lease) Init(base time.Time) { l.base = base }

// Base returns the time from which the lease's clock counts.
func (l *Lease) Base() time.Time { return l.base }

// Renew sets the end of the lease; the zero time means no end.
func (l *Lease) Renew(until time.Time) {
	if until.IsZero() {
		l.until.Store(forever)
		return
	}
	l.until.Store(int64(until.Sub(l.base)))
}

// End moves the lease to a later phase. It never moves it back.
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

// Valid reports whether a turn may begin. It reads the clock, unless the lease has no end.
func (l *Lease) Valid() bool {
	return !l.Bounded() && l.Phase() == Renewed || l.ValidAt(l.Now())
}

// ValidAt reports whether a turn may begin at time now of the lease's clock.
func (l *Lease) ValidAt(now int64) bool {
	return l.Phase() == Renewed && now < l.until.Load()
}

// Now returns the time of the lease's clock, which is monotonic, in nanoseconds after Base.
func (l *Lease) Now() int64 { return int64(time.Since(l.base)) }

// MayAnswer reports whether a turn that ran may be answered.
func (l *Lease) MayAnswer() bool { return l.Phase() == Ending || l.Lasts() }

// Lasts reports whether the lease has not ended, so that the node is in contact with the other
// members. A lease that lasts does not let turns begin in phase Closing.
func (l *Lease) Lasts() bool {
	return l.Phase() < Ending && (!l.Bounded() || l.Now() < l.until.Load())
}
