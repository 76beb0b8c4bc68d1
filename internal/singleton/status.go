package singleton

import "fmt"

// A Status is where a member stands in its life.
type Status uint8

// The statuses of Akka's membership, in the order in which a member can go through
// them. A removed member is not in the view.
const (
	// Joining: not all members have seen it yet.
	Joining Status = iota + 1
	// WeaklyUp: the same, while they cannot agree.
	WeaklyUp
	// Up: a member with an age, on which the instance may run.
	Up
	// Leaving: it is on its way out, in order; there is no way back.
	Leaving
	// Exiting: all have seen it leave; it is removed soon.
	Exiting
	// Down: given up by the others; only its removal proves that it has stopped.
	Down
)

// String names the status.
func (s Status) String() string {
	switch s {
	case Joining:
		return "joining"
	case WeaklyUp:
		return "weakly-up"
	case Up:
		return "up"
	case Leaving:
		return "leaving"
	case Exiting:
		return "exiting"
	case Down:
		return "down"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}
