// Package measure describes the load of a node. Node.Load returns how much of everything there is; after Node.Measure
// a [Meter] gets durations and sizes as they happen. Module shardotel makes OpenTelemetry's metrics of both.
package measure

import "time"

// Load is the room that entities and calls take at a node at one moment, with counts of their events
// since shard.New. Node.Load returns it.
type Load struct {
	// Types are those that the node hosts or has clients of, in order of name.
	Types []Type
	// BufferBytes is how many bytes the calls take that wait at the node for a home, for a shard
	// to open, or for a turn. BufferLimit is Config.Limits.BufferBytes.
	BufferBytes, BufferLimit int64
	// Refused are the calls that the node has refused, by cause: "overloaded", "circular",
	// "moved", "dropped" and so on. Their sum is the counter "refused" of Node.Counters.
	Refused map[string]uint64
	// Sent and Received are the messages of the membership, by kind: "heartbeat", "gossip",
	// "status" and so on. A message to all members counts once.
	Sent, Received map[string]uint64
	// Downed counts the members seen downed, by the strongest evidence against them: "gone",
	// "cut", "silent", or "none" for a member downed by an operator.
	Downed map[string]uint64
}

// Type is the [Load] of one entity type. Its counts are since shard.New, and the rest is of the moment.
type Type struct {
	Kind string
	// Shards are those that the node holds, receives, or still forwards calls for, by state,
	// with the names of shard.ShardState.
	Shards map[string]int
	// Homeless are the shards that have no home in the node's table; 0 before the type has a
	// table.
	Homeless         int
	Entities, Active int // as in shard.ShardState
	// Held counts calls of this process waiting at their sender because their shard has no
	// home or moves. Opening counts calls waiting here for a shard to open, and Queued calls
	// waiting here for a turn of their entity. Opening and Queued take WaitingBytes.
	Held, Opening, Queued int
	WaitingBytes          int64
	// Activations and Passivations count by the names of shard.Activation and shard.Passivation.
	Activations, Passivations map[string]uint64
	// PassivatedBytes is the sum of the encoded states of all entities when they were
	// passivated.
	PassivatedBytes uint64
	// MovesBegun counts the moves of shards away from the node. MovesCommitted of them were
	// confirmed by the new home, and MovesGivenUp were not. The rest are under way.
	MovesBegun, MovesCommitted, MovesGivenUp uint64
}

// A Meter is told of durations and sizes of which a node keeps no sum, from Node.Measure on. Functions
// that are nil are not called. The others are called by several goroutines at once, some of which
// have locks: they must not block, and must not call the node.
type Meter struct {
	// StoreAppend is called when an append of a shard of a durable type to its log has ended.
	StoreAppend func(Append)
	// MoveEnded is called when the move of a shard away from the node has ended: committed, the
	// new home has it, or the move was given up. Pause is how long the node began no turns of new
	// calls in the shard.
	MoveEnded func(kind string, committed bool, pause time.Duration)
	// FrameSent is called for each frame with calls, answers and other envelopes that went to the
	// broker.
	FrameSent func(envelopes, bytes int)
}

// An Append is one append to the log of a durable shard.
type Append struct {
	Kind    string
	Commits int           // entries that it had, most of them commits of turns; 0 means it was the claim of a shard's new home
	Bytes   int           // that the store was given
	Took    time.Duration // until the store confirmed it or the append failed
	Err     error         // why the store has not confirmed it; nil means it has
}
