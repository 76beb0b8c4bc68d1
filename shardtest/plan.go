package shardtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Fault is a kind of fault that a storm may have.
type Fault int

// The kinds of faults in a storm.
const (
	Kills         Fault = iota // a node is killed, and started again
	Departures                 // a node leaves in order, and is started again
	Pauses                     // a node stands still
	Cuts                       // two nodes do not hear each other
	Isolations                 // a node is cut off from all others and the store
	Losses                     // some messages, on all paths, are lost
	Moves                      // a shard is moved to another node
	BrokerOutages              // the broker is restarted
	StoreOutages               // the store is stopped, and started again
)

var faultNames = [...]string{"kill", "departure", "pause", "cut", "isolation", "loss", "move", "broker outage", "store outage"}

// String names the fault.
func (f Fault) String() string { return faultNames[f] }

var allFaults = []Fault{Kills, Departures, Pauses, Cuts, Isolations, Losses, Moves, BrokerOutages, StoreOutages}

type step struct {
	at          time.Duration // since the storm began
	lasts       time.Duration
	fault       Fault
	node, other string
	number      uint64 // which shard moves, or how many of a million messages are lost
}

func (s step) String() string {
	switch s.fault {
	case Kills, Departures, Pauses, Isolations:
		return fmt.Sprintf("%v: %v of %s for %v", s.at, s.fault, s.node, s.lasts)
	case Cuts:
		return fmt.Sprintf("%v: %v between %s and %s for %v", s.at, s.fault, s.node, s.other, s.lasts)
	case Losses:
		return fmt.Sprintf("%v: %v of %.1f%% for %v", s.at, s.fault, float64(s.number)/10_000, s.lasts)
	case Moves:
		return fmt.Sprintf("%v: %v to %s", s.at, s.fault, s.node)
	}
	return fmt.Sprintf("%v: %v for %v", s.at, s.fault, s.lasts)
}

// plan draws the faults of a storm of length d.
func plan(r *rand.Rand, names []string, d time.Duration, faults []Fault) (steps []step) {
	for at := between(r, 0, time.Second); at < d && len(names) > 0; at += between(r, 50*time.Millisecond, 2*time.Second) {
		s := step{at: at, fault: faults[r.IntN(len(faults))], number: r.Uint64()}
		s.node, s.other = names[r.IntN(len(names))], names[r.IntN(len(names))]
		s.lasts = s.fault.duration(r)
		if s.fault == Losses {
			s.number = 10_000 + s.number%190_000
		}
		if s.fault != Cuts || s.node != s.other {
			steps = append(steps, s)
		}
	}
	return slices.Clip(steps)
}

func (f Fault) away() bool {
	return f == Kills || f == Departures || f == Pauses || f == Isolations
}

func (f Fault) duration(r *rand.Rand) time.Duration {
	switch f {
	case Moves:
		return 0
	case Losses:
		return between(r, 100*time.Millisecond, 3*time.Second)
	case BrokerOutages, StoreOutages:
		return between(r, time.Millisecond, time.Second)
	}
	if r.IntN(2) == 0 {
		return between(r, time.Millisecond, time.Second)
	}
	return between(r, time.Millisecond, 10*time.Second)
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least))).Truncate(100*time.Microsecond)
}
