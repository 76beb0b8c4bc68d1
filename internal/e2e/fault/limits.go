package fault

import (
	"fmt"
	"time"
)

// unjudged is the limit of a figure that is printed only.
const unjudged = -1

// Limits are the most that a fault may cost; unjudged where there is no limit.
type Limits struct {
	Failed, Unknown, Lost, Doubled, Disorder, Misstated int
	Closed                                              int // entities whose shard says that the store has lost acknowledged changes

	Pause    time.Duration // of any entity
	Recovery time.Duration // until all calls go well again
	Refusal  time.Duration // of calls that are too many, p99

	// Neighbours bounds the p99 of calls beside poisoned entities, as a multiple of the p99
	// before. Where the machine has too few processors, the p99 beside a foreign process that
	// loops takes the place of the latter. 0: not limited.
	Neighbours float64
}

// misses names the figures of the row that are over their limits. Refusal and Neighbours are judged
// by the faults that have them.
func (l Limits) misses(r Row) (misses []string) {
	count := func(what string, got, most int) {
		if most != unjudged && got > most {
			misses = append(misses, fmt.Sprintf("%s: %d, want at most %d", what, got, most))
		}
	}
	took := func(what string, got, most time.Duration) {
		if most != unjudged && got > most {
			misses = append(misses, fmt.Sprintf("%s: %v, want at most %v", what, round(got), most))
		}
	}
	count("failed", r.Failed, l.Failed)
	count("unknown", r.Unknown, l.Unknown)
	count("lost", r.Lost, l.Lost)
	count("doubled", r.Doubled, l.Doubled)
	count("out of order", r.Disorder, l.Disorder)
	count("misstated", r.Misstated, l.Misstated)
	count("entities that do not answer", r.Silent, 0)
	took("longest pause", r.Longest, l.Pause)
	took("recovery", r.Recovery, l.Recovery)
	return misses
}
