package singleton

import "fmt"

// A Status is where a member stands in its life.
type Status uint8

// The statuses, in the order in which a member can go through them. A removed
// member is not in the view.
const (
	Joining Status = iota + 1
	WeaklyUp
	Up
	Leaving
	Exiting
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
