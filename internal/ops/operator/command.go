package operator

import "fmt"

// A Command says what an operator asks a process to do.
type Command uint8

// The commands.
const (
	// Members asks a member for its view of the cluster.
	Members Command = iota + 1
	// RollCall asks every process of the cluster for its own view, including processes that are not
	// members yet.
	RollCall
	// Join tells a process that has Config.Membership.JoinByCommand to join the cluster.
	Join
	// Leave tells a member to leave gracefully.
	Leave
	// Down tells a member to down another member.
	Down
	// State asks the node of an entity for its state.
	State
	// SetState tells the node of an entity to replace or delete the entity's state.
	SetState
	// Shards asks a member for the shards that it holds, of one type or of all.
	Shards
	// Where asks a member that hosts a type for the home of one entity of this type.
	Where
	// Counters asks a member for its counters.
	Counters
	// Events asks a member for the latest lines of its log.
	Events
	// Moves asks a member for the shard moves under way. Only the coordinator's member knows them.
	Moves
	// Turns asks a member for the turns of its methods since it started, and its busiest entities
	// and callers.
	Turns
	// Facts asks a member for its version, clock, health and limits.
	Facts
	// Place tells a member that hosts a type to pin the shard of an entity to a node.
	Place
	// Rebalance tells a member to have the coordinator check at once which shards should move.
	Rebalance
	// PauseRebalancing tells a member to have the coordinator stop moving shards for balance.
	PauseRebalancing
	// ResumeRebalancing ends a pause of rebalancing.
	ResumeRebalancing
	// Inspect asks the node of an entity for everything about it except its state, or asks every
	// node for the entities whose state it cannot read.
	Inspect
	// List asks a member that hosts a type for ids of the type's entities, at any home.
	List
	// Reminders asks a member that hosts a type for the reminders of an entity or, without its id, for the
	// entities that have any.
	Reminders
	// CancelReminder tells a member that hosts a type to cancel a reminder of an entity.
	CancelReminder
	// RetryReminder tells a member that hosts a type to run a given-up reminder again.
	RetryReminder
	// Passivate tells the node of an entity to passivate it.
	Passivate
	// Dump asks a member for the stacks of its goroutines.
	Dump
	// SizePool tells a member that hosts a pool to ask for a number of instances.
	SizePool
	// MoveShard tells a member that hosts a type to have a shard moved to a node.
	MoveShard
	// PauseReminders tells a member that hosts a durable type to pause the type's reminders.
	PauseReminders
	// ResumeReminders ends a pause of reminders.
	ResumeReminders
	// Trends asks a member for its last hour in minutes.
	Trends
	// Feeds asks a member with a store for the partitions of streams that members read.
	Feeds

	commands // one more than the last command
)

// Known reports whether this version knows the command.
func (c Command) Known() bool { return 0 < c && c < commands }

// OfProcess reports whether executing the command needs the whole process, not only its membership.
func (c Command) OfProcess() bool {
	switch c {
	case State, SetState, Shards, Where, Counters, Events, Turns, Facts, Place, Rebalance, PauseRebalancing, ResumeRebalancing, Inspect, List, Reminders, CancelReminder, RetryReminder, Passivate, Dump, SizePool, MoveShard, PauseReminders, ResumeReminders, Trends, Feeds:
		return true
	}
	return false
}

// ForOperators reports whether the command changes something, or shows a state or stacks. Operators
// with read permission only may not send such a command.
func (c Command) ForOperators() bool {
	switch c {
	case Members, RollCall, Inspect, Shards, Where, Counters, Events, Moves, Turns, Facts, List, Reminders, Trends, Feeds:
		return false
	}
	return true
}

// String returns the command's name.
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
		return "show a state"
	case SetState:
		return "set a state"
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
		return "pin a shard"
	case Rebalance:
		return "rebalance"
	case PauseRebalancing:
		return "pause rebalancing"
	case ResumeRebalancing:
		return "resume rebalancing"
	case Inspect:
		return "inspect"
	case List:
		return "list"
	case Reminders:
		return "reminders"
	case CancelReminder:
		return "cancel reminder"
	case RetryReminder:
		return "retry reminder"
	case Passivate:
		return "passivate"
	case Dump:
		return "dump"
	case SizePool:
		return "size a pool"
	case MoveShard:
		return "move a shard"
	case PauseReminders:
		return "pause reminders"
	case ResumeReminders:
		return "resume reminders"
	case Trends:
		return "trends"
	case Feeds:
		return "feeds"
	}
	return fmt.Sprintf("Command(%d)", uint8(c))
}
