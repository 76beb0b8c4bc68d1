package operator

import "fmt"

// A Command is a request to a process.
type Command uint8

// The commands.
const (
	// Members asks a member for its view of the cluster.
	Members Command = iota + 1
	// RollCall asks every process of the cluster for its own view, also those that
	// are no members yet.
	RollCall
	// Join tells a process with Config.Membership.JoinByCommand to join.
	Join
	// Leave tells a member to leave in order.
	Leave
	// Down tells a member to down another one.
	Down
	// State asks the node of an entity for its state.
	State
	// SetState tells the node of an entity to replace its state, or to drop it.
	SetState
	// Shards asks a member for the shards that it holds, of one type or of all.
	Shards
	// Where asks a member that hosts a type for the home of one of its entities.
	Where
	// Counters asks a member for its counters.
	Counters
	// Events asks a member for the latest lines of its log.
	Events
	// Moves asks a member for the moves of shards under way, which only the coordinator's member knows.
	Moves
	// Turns asks a member for its most frequent turns. It counts them from then on for a while.
	Turns
	// Facts asks a member for its version, clock, health and limits.
	Facts
	// Place tells a member that hosts a type to pin the shard of an entity.
	Place
	// Rebalance tells a member to have the coordinator look at once which shards should move.
	Rebalance
	// PauseRebalancing tells a member to have the coordinator move no shard for balance.
	PauseRebalancing
	// ResumeRebalancing ends that.
	ResumeRebalancing
	// Inspect asks the node of an entity for all but its state, or every node for the entities whose
	// state it cannot read.
	Inspect

	commands // is above all of them
)

// Known reports whether this version knows the command.
func (c Command) Known() bool { return 0 < c && c < commands }

// OfProcess reports whether the process carries the command out, beyond what its membership
// knows.
func (c Command) OfProcess() bool {
	switch c {
	case State, SetState, Shards, Where, Counters, Events, Turns, Facts, Place, Rebalance, PauseRebalancing, ResumeRebalancing, Inspect:
		return true
	}
	return false
}

// ForOperators reports whether the command changes anything, or shows state. Operators that may only
// read send none of these.
func (c Command) ForOperators() bool {
	switch c {
	case Members, RollCall, Inspect, Shards, Where, Counters, Events, Moves, Turns, Facts:
		return false
	}
	return true
}

// String names the command.
func (c Command) String() string {
	switch c {
	case Members:
		return "members"
	case RollCall:
		return "roll call"
	case Join:
		return "join"
	case Leave:
		return "leave"
	case Down:
		return "down"
	case State:
		return "state"
	case SetState:
		return "set state"
	case Shards:
		return "shards"
	case Where:
		return "where"
	case Counters:
		return "counters"
	case Events:
		return "events"
	case Moves:
		return "moves"
	case Turns:
		return "turns"
	case Facts:
		return "facts"
	case Place:
		return "place"
	case Rebalance:
		return "rebalance"
	case PauseRebalancing:
		return "pause rebalancing"
	case ResumeRebalancing:
		return "resume rebalancing"
	case Inspect:
		return "inspect"
	}
	return fmt.Sprintf("Command(%d)", uint8(c))
}
