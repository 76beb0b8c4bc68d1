package runtoken

import (
	"sync/atomic"
	"time"
)

// slowTurn is the average duration of turns above which each has a goroutine of its own:
// many times the cost of one.
const slowTurn = 10 * time.Microsecond

// A SlowTurnDetector measures how long turns take, and so decides whether a lane should run
// them. The lane runs quick ones, because handing them over costs more than they do. Slow
// ones, which compute for long or wait for a database, would hold up the others. All methods but Took
// may only be called by the goroutine that has the lane's run token. Without the detector, local
// tells run at half their rate (What each trick buys in bench/README.md).
type SlowTurnDetector struct {
	slow  bool
	last  int64         // when the lane's turn before began; 0 means it is not known
	quick time.Duration // from one of the lane's turns to the next, a moving average
	// alone is the moving average of turns with a goroutine of their own, in
	// nanoseconds.
	alone atomic.Int64
}

// average returns the moving average after one more turn, which counts as at most most, with the
// weight 1/over.
func average(mean, took, most, over time.Duration) time.Duration {
	return mean + (min(took, most)-mean)/over
}

// Ran notes when a turn began that the lane ran, in nanoseconds. A single long one
// counts little, for the system may have had other things to do: it takes four or five
// in a row to make quick turns slow, or one in four for long.
func (d *SlowTurnDetector) Ran(began int64) {
	if d.last != 0 {
		d.quick = average(d.quick, time.Duration(began-d.last), 4*slowTurn, 16)
	}
	if d.last = began; d.quick > slowTurn {
		d.SlowDown()
	}
}

// Rest records that the lane waits for input, which is not time of a turn.
func (d *SlowTurnDetector) Rest() { d.last = 0 }

// SlowDown is for turns that take long: the average says so, or the run token was
// taken from one.
func (d *SlowTurnDetector) SlowDown() {
	d.slow, d.last, d.quick = true, 0, 0
	d.alone.Store(int64(2 * slowTurn))
}

// Took notes the duration of a turn with a goroutine of its own, including its wait for
// the lease. It is safe for concurrent use; a lost note does not matter.
func (d *SlowTurnDetector) Took(turn time.Duration) {
	d.alone.Store(int64(average(time.Duration(d.alone.Load()), turn, 2*slowTurn, 8)))
}

// IsSlow reports whether the next turn should have a goroutine of its own.
func (d *SlowTurnDetector) IsSlow() bool {
	if d.slow && time.Duration(d.alone.Load()) < slowTurn/2 {
		d.slow = false
	}
	return d.slow
}
