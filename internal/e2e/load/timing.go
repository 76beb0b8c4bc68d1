package load

import "time"

// Slow is how long an entity may pause before it counts as disturbed.
const Slow = 250 * time.Millisecond

// Timing is how entities answered from some time on.
type Timing struct {
	Longest time.Duration // the longest pause of an entity
	// Recovery is the time until all calls went well again: none failed or took
	// longer than Slow from then on. 0 if all went well.
	Recovery  time.Duration
	Disturbed int // entities of which a call failed or took longer than Slow
	Silent    int // entities that do not answer yet
	P50, P99  time.Duration
}

// Everyone selects all entities.
func Everyone(string) bool { return true }
