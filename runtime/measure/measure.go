// Package measure describes the load of a node. Node.Load returns the amount of each kind of load.
// After Node.Measure a [Meter] also gets durations and sizes as they occur. Module shardotel turns
// both into OpenTelemetry metrics.
package measure

import "time"

// Load is the memory that entities and calls now take at a node, with counts of events since
// shard.New. Node.Load returns it.
type Load struct {
	// Process has the processor time that the process and its shards use.
	Process Process
	// Types has the types that the node hosts or has clients of, in order of name.
	Types []Type
	// BufferBytes is the size in bytes of the calls that wait at the node for a home, for a shard
	// to open, or for a turn. BufferLimit is Config.Limits.BufferBytes.
	BufferBytes, BufferLimit int64
	// Refused counts the calls that the node has refused, by cause: "overloaded", "circular",
	// "moved", "dropped" and so on. The sum is the counter "refused" of Node.Counters.
	Refused map[string]uint64
	// Sent and Received count membership messages, by kind: "heartbeat", "gossip", "status" and so
	// on. A message to all members counts once.
	Sent, Received map[string]uint64
	// Downed counts the members seen downed, by the strongest evidence against them: "gone",
	// "lost", "cut", "silent", or "none", for example after an operator's command.
	Downed map[string]uint64
	// Health is the node's score of its own health in a cluster with a membership table: from 0,
	// healthy, to 8. It is 0 with gossip.
	Health int
	// Faults counts the faults that the node has found at itself and in the cluster, by what was
	// checked: "cluster", "store", "turns", "buffers" and so on. Checks without a fault are left out.
	Faults map[string]uint64
	// Feeds has the streams that the node reads with shard.Consume, in order of name.
	Feeds []Feed
}

// Process is the processor time of a process, as a number of processors in the last interval of 10 s.
// Until the first interval has ended, only Capacity and Zone are set.
//
// The processor time of a shard is estimated from the times of its turns, most of which are
// sampled. The time of a turn includes its method's waits, except for calls to entities and, before
// the turn, for the store. The shards share the processor time of the process, including garbage
// collection and network, in proportion to these times, but none gets over 32 times its turns'
// time. If the process has several nodes, as in tests, Used is the time of the node's turns alone.
type Process struct {
	Used float64
	// Capacity is Config.Capacity: by default GOMAXPROCS, or less if the process has a smaller quota.
	Capacity float64
	GC       float64 // the share of Used that is garbage collection: 0 to 1
	Memory   float64 // the share of GOMEMLIMIT that the Go runtime has taken; 0 without a limit
	Zone     string  // Config.Zone
	Hottest  []Shard // the shards that use most, at most 10, the hottest first
}

// Shard is the number of processors that a shard uses.
type Shard struct {
	Kind  string
	Shard uint32
	Used  float64
}

// Feed is the [Load] of one stream that shard.Consume reads. Its counts begin at shard.New and
// cover the partitions that the node has read.
type Feed struct {
	Name string
	// Waiting is the number of tells that were read and are not committed yet.
	Waiting int64
	// Read counts messages, including those read again. Committed counts finished tells. Failed
	// counts attempts of tells that failed at their receivers.
	Read, Committed, Failed uint64
	// Dead counts the dead letters that were stored, and Missed the messages that were deleted
	// before they could be read.
	Dead, Missed uint64
}

// Type is the [Load] of one entity type. Its counts begin at shard.New; its other fields describe
// the present moment.
type Type struct {
	Kind string
	// Shards counts the shards that the node holds, receives, or still forwards calls for, by the
	// states of shard.ShardState.
	Shards map[string]int
	// Homeless is the number of shards that have no home in the node's table. It is 0 until the
	// table has the type.
	Homeless int
	// Instances is the number of instances of a pool, in the node's table. Wanted is how many the
	// pool should have, even without room for them at its members; it is 0 except at the
	// coordinator's node. Both are 0 for other types.
	Instances, Wanted int
	Entities, Active  int // as in shard.ShardState, over all shards of the type here
	// Used is the number of processors that the type's shards here use, as in [Process].
	Used float64
	// Held counts this process's own calls that wait because their shard has no home or moves.
	// Opening counts calls waiting here for a shard to open, and Queued counts calls waiting here
	// for a turn of their entity. WaitingBytes is the size of the Opening and Queued calls.
	Held, Opening, Queued int
	WaitingBytes          int64
	// Activations and Passivations count by reason, with the names of shard.Activation and
	// shard.Passivation.
	Activations, Passivations map[string]uint64
	// PassivatedBytes is the sum of the sizes of encoded states, each measured when its entity was
	// passivated.
	PassivatedBytes uint64
	// MovesBegun counts the moves of shards away from the node. The new home confirmed
	// MovesCommitted of them and did not confirm MovesGivenUp. The other moves are under way.
	MovesBegun, MovesCommitted, MovesGivenUp uint64
}

// A Meter gets the durations and sizes of single events, after Node.Measure, because the node keeps
// no sums of them. A nil function is not called. The functions are called by several goroutines at
// once, some of which hold locks, so they must not block and must not call the node.
type Meter struct {
	// StoreAppend is called when an append to the log of a durable type's shard has ended.
	StoreAppend func(Append)
	// MoveEnded is called when the move of a shard away from the node has ended. committed reports
	// whether the new home has the shard; otherwise the move was given up. pause is how long the
	// node began no turns for new calls in the shard.
	MoveEnded func(kind string, committed bool, pause time.Duration)
	// ReminderFired is called when a turn runs a reminder. late is the time since it was due.
	ReminderFired func(kind string, late time.Duration)
	// FrameSent is called for each frame of calls, answers and other envelopes that was sent to the
	// broker.
	FrameSent func(envelopes, bytes int)
}

// An Append is one append to the log of a durable shard.
type Append struct {
	Kind    string
	Commits int           // its entries, most of them commits of turns; 0 means the claim of a shard's new home
	Bytes   int           // given to the store
	Took    time.Duration // until the store confirmed it or the append failed
	Err     error         // why the store has not confirmed the append; nil: it has
}
