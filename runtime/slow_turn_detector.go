package shard

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/region"
)

// slowTurn is how long turns take on average from where on each has a goroutine of
// its own: many times what that costs.
const slowTurn = 10 * time.Microsecond

// A slowTurnDetector measures how long turns take, and so whether a lane should run them: quick
// ones it does, for handing them over costs more than they do. Slow ones would hold
// up the others, for they compute for long or wait for a database. All but took
// belongs to whoever has the lane.
type slowTurnDetector struct {
	slow  bool
	last  int64         // when the lane's turn before began; 0: it is not known
	quick time.Duration // from one of the lane's turns to the next, a moving average
	// alone is the moving average of turns with a goroutine of their own, in
	// nanoseconds.
	alone atomic.Int64
}

// average moves a mean by a turn, which counts for at most so much time.
func average(mean, took, most, over time.Duration) time.Duration {
	return mean + (min(took, most)-mean)/over
}

// ran notes when a turn began that the lane ran, in nanoseconds. A single long one
// counts little, for the system may have had other things to do: it takes four or five
// in a row to make quick turns slow, or one in four for long.
func (p *slowTurnDetector) ran(began int64) {
	if p.last != 0 {
		p.quick = average(p.quick, time.Duration(began-p.last), 4*slowTurn, 16)
	}
	if p.last = began; p.quick > slowTurn {
		p.slowDown()
	}
}

// slowDown is for turns that take long: the average says so, or the lane was taken
// away from one.
func (p *slowTurnDetector) slowDown() {
	p.slow, p.last, p.quick = true, 0, 0
	p.alone.Store(int64(2 * slowTurn))
}

// took notes how long a turn took that had a goroutine of its own, with what it
// waited for the lease. It is safe for concurrent use; a lost note does not matter.
func (p *slowTurnDetector) took(d time.Duration) {
	p.alone.Store(int64(average(time.Duration(p.alone.Load()), d, 2*slowTurn, 8)))
}

// isSlow reports whether the next turn should have a goroutine of its own.
func (p *slowTurnDetector) isSlow() bool {
	if p.slow && time.Duration(p.alone.Load()) < slowTurn/2 {
		p.slow = false
	}
	return p.slow
}

// maxAlone bounds the turns of remote calls that have a goroutine of their own.
// Beyond it the lane runs turns itself, and so makes the senders wait.
const maxAlone = 16 << 10

// runAlone runs a turn on a goroutine of its own, unless there are too many.
func (s *hostedShard) runAlone(e *region.Entity, c *inCall, p *slowTurnDetector) bool {
	pl := s.plane()
	if pl.alone.Add(1) > maxAlone {
		pl.alone.Add(-1)
		return false
	}
	pl.wg.Go(func() {
		defer pl.alone.Add(-1)
		a := s.guarded(e, c)
		p.took(time.Duration(pl.lease.Now() - c.began))
		s.finish(c, a, c.failed(), pumps{})
	})
	return true
}

// pumps leaves sessions to their pumps, so that answers of many goroutines share
// frames.
type pumps struct{}

func (pumps) publishLater(p *peerSession) {
	p.Lock()
	p.publishUnlock(pumped)
}
