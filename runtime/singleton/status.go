package singleton

import "fmt"

// A Status is a stage in the life of a member.
type Status uint8

// The statuses of Akka's membership, in the order in which a member can go through
// them. A removed member is not in the view.
const (
	// Joining means that not all members have seen it yet.
	Joining Status = iota + 1
	// WeaklyUp is Joining while the view does not converge.
	WeaklyUp
	// Up means that it is a member with an age, on which the instance may run.
	Up
	// Leaving means that it leaves in order, which is final.
	Leaving
	// Exiting means that all members have seen it leave; it is removed soon.
	Exiting
	// Down means that the others have declared it down; only its removal proves
	// that it has stopped.
	Down
)

// String returns the name of the status.
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
