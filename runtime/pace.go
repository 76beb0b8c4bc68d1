package shard

import "time"

const (
	// slowTurn is how long turns take on average from where on several goroutines
	// run them faster than the lane alone: many times what handing one over costs.
	slowTurn = 10 * time.Microsecond
	// slowTurns is how many turns the lane then hands over before it runs some
	// itself, to see how long they take now.
	slowTurns = 256
)

// A pace tells a lane how long the turns take that it runs, and so whether it
// should: quick ones it runs itself, for handing them over costs more than they do.
// It belongs to whoever has the lane.
type pace struct {
	last  int64         // when the turn before began; 0: it is not known
	mean  time.Duration // from one turn's begin to the next, in a moving average
	spend int           // turns to hand over
}

// ran notes when a turn began, in nanoseconds.
func (p *pace) ran(began int64) {
	if p.last != 0 {
		took := min(time.Duration(began-p.last), 4*slowTurn) // one long turn says little
		p.mean += (took - p.mean) / 8
	}
	p.last = began
	if p.mean > slowTurn {
		*p = pace{spend: slowTurns}
	}
}

// elsewhere tells whether the next turn should run on another goroutine.
func (p *pace) elsewhere() bool {
	if p.spend == 0 {
		return false
	}
	p.spend--
	return true
}
