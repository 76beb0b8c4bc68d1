package admin

import (
	"github.com/shardgen/shardgen/internal/ops/operator"
)

type (
	// A View is the cluster as one process sees it.
	View = operator.View
	// A Member is one row of a View.
	Member = operator.Member
	// A Singleton is one row of a View: a type of which the cluster has one instance.
	Singleton = operator.Singleton
	// A Suspicion is a member's vote in the membership table that another member is dead.
	Suspicion = operator.Suspicion
	// An Entity is one entity with its encoded state.
	Entity = operator.Entity
	// A Type is an entity type with its shards, as one member sees them.
	Type = operator.Type
	// A Listing says which ids of a type to list. Its zero value means all.
	Listing = operator.Listing
	// A Reminder is a reminder of an entity.
	Reminder = operator.Reminder
	// A Shard is a shard as the member that holds it sees it.
	Shard = operator.Shard
	// A Place is the home of an entity.
	Place = operator.Home
	// A Pause is a pause of rebalancing: no shards move for balance.
	Pause = operator.Pause
	// A Move is a move of a shard that is under way.
	Move = operator.Move
	// A Fact holds the version, clock, health and limits of a member's process.
	Fact = operator.Fact
	// A Contract is an entity type's contract in a member's program.
	Contract = operator.Contract
	// A Line is a line of a member's log.
	Line = operator.Line
	// A Minute is a member's load in one minute.
	Minute = operator.Minute
	// A TypeMinute holds the turns of a type in a Minute.
	TypeMinute = operator.TypeMinute
	// A Feed is a partition of a stream that members read.
	Feed = operator.Feed
	// Turns are the most frequent turns of a member.
	Turns = operator.TurnReport
	// MethodTurns are the turns of one method.
	MethodTurns = operator.MethodTurns
	// A BusyEntity is an entity with many turns.
	BusyEntity = operator.BusyEntity
	// A BusyCaller is a caller with many calls to an entity.
	BusyCaller = operator.BusyCaller
	// A RunningTurn is a turn that has not ended.
	RunningTurn = operator.RunningTurn
)
