// Package fault runs faults on a cluster of real processes under load, and
// judges what became of the calls. Each fault has a file of its own.
package fault

import (
	"context"
	"fmt"
	"time"
)

// A Fault is something that happens to a cluster under load.
type Fault struct {
	Name  string
	About string // one line
	// Victim is which node it happens to when the run names none: 1 is the
	// oldest, which coordinates; -1 is the youngest. 0: it has no victim.
	Victim int
	// Inject makes it happen and returns when it has taken effect in full.
	Inject func(ctx context.Context, r *Run) error
	Limits Limits
}

// faults are all that can be run, in the order they are listed.
var faults = []Fault{join, leave, kill}

// All returns all faults.
func All() []Fault { return append([]Fault(nil), faults...) }

// ByName finds a fault.
func ByName(name string) (Fault, error) {
	for _, f := range faults {
		if f.Name == name {
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("no fault is called %q (-list names them)", name)
}

// unjudged is the limit of a figure that is printed only.
const unjudged = -1

// Limits are the most that a fault may cost; unjudged for what is not limited.
type Limits struct {
	Failed, Unknown, Lost, Doubled, Disorder, Misstated int

	Pause    time.Duration // of any entity
	Recovery time.Duration // until all calls go well again
}

// misses names the figures of the row that are over their limits.
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
