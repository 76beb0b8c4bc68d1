package runner

import (
	"sync/atomic"
	"time"
)

// slowTurn is the average duration above which each turn gets its own goroutine. It is many times
// the cost of a goroutine.
const slowTurn = 10 * time.Microsecond

// A SlowTurnDetector measures how long turns take, and decides whether a lane runs the next turn
// itself. A lane runs quick turns itself, because starting a goroutine would cost more than such a
// turn. A slow turn, which computes for long or waits for a database, gets its own goroutine, so
// that it does not delay the lane's other turns. Any goroutine may call Took; only the one with the
// lane's run token may call the other methods. Without the detector, local tells run at half their
// rate (What each trick buys in bench/README.md).
type SlowTurnDetector struct {
	slow  bool
	last  int64         // when the lane's previous turn began; 0 means unknown
	quick time.Duration // moving average of the time from one of the lane's turns to the next
	// alone is the moving average of the duration of turns with their own goroutine, in nanoseconds.
	alone atomic.Int64
}

// average returns the moving average mean after a turn that took the time took. The turn has the
// weight 1/over, and counts with at most the duration most.
func average(mean, took, most, over time.Duration) time.Duration {
	return mean + (min(took, most)-mean)/over
}

// Ran records a turn that the lane itself has run. began is when the turn began, in nanoseconds. A
// single long turn counts little, because the system may have been busy. Turns count as slow only
// after four or five long turns in a row, or if for some time one in four is long.
func (d *SlowTurnDetector) Ran(began int64) {
	if d.last != 0 {
		d.quick = average(d.quick, time.Duration(began-d.last), 4*slowTurn, 16)
	}
	if d.last = began; d.quick > slowTurn {
		d.SlowDown()
	}
}

// Rest records that the lane now waits for input, so that the wait does not count as a slow turn.
func (d *SlowTurnDetector) Rest() { d.last = 0 }

// SlowDown makes IsSlow report true, because the average is above slowTurn or a turn has lost the
// run token.
func (d *SlowTurnDetector) SlowDown() {
	d.slow, d.last, d.quick = true, 0, 0
	d.alone.Store(int64(2 * slowTurn))
}

// Took records the duration of a turn that had its own goroutine, including the turn's wait for the
// lease. It is safe for concurrent use. If two calls coincide, one of the durations may be lost,
// which does not matter for an average.
func (d *SlowTurnDetector) Took(turn time.Duration) {
	d.alone.Store(int64(average(time.Duration(d.alone.Load()), turn, 2*slowTurn, 8)))
}

// IsSlow reports whether the next turn should have its own goroutine.
func (d *SlowTurnDetector) IsSlow() bool {
	if d.slow && time.Duration(d.alone.Load()) < slowTurn/2 {
		d.slow = false
	}
	return d.slow
}
