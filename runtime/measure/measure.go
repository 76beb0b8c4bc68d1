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

// Feed is the part of [Load] about one stream that shard.Consume reads. Its counts begin at
// shard.New and cover only the partitions that this node has read.
type Feed struct {
	Name string
	// Waiting is the number of tells that were read from the stream and are not committed yet.
	Waiting int64
	// Read counts messages; one that is read again counts again. Committed counts finished tells.
	// Failed counts the attempts of tells at which the receiver failed.
	Read, Committed, Failed uint64
	// Dead counts the dead letters that were stored. Missed counts the messages that were deleted
	// from the stream before the node read them.
	Dead, Missed uint64
}

// Type is the part of [Load] about one entity type. Activations and the fields below it count from
// shard.New on. The fields above it describe the present moment.
type Type struct {
	Kind string
	// Shards has, for each state of shard.ShardState, the number of shards that the node holds,
	// receives, or still forwards calls for.
	Shards map[string]int
	// Homeless is the number of shards that have no home in the node's copy of the table. It is 0
	// until the table has the type.
	Homeless int
	// Instances is the number of instances of a pool, in the node's copy of the table. Wanted is the
	// number that the pool should have, even if its members have no room for so many. Wanted is 0
	// except at the coordinator's node. Both are 0 for types that are not pools.
	Instances, Wanted int
	Entities, Active  int // as in shard.ShardState, over all shards of the type here
	// Used is the number of processors that the type's shards at this node use, as in [Process].
	Used float64
	// Held counts calls made by this process that wait because their shard has no home or moves.
	// Opening counts calls of any process that wait at this node for a shard to open. Queued counts
	// those that wait at this node for a turn of their entity. WaitingBytes is the size of the
	// Opening and Queued calls together.
	Held, Opening, Queued int
	WaitingBytes          int64
	// Activations and Passivations have a count for each reason. The names of the reasons are those
	// of shard.Activation and shard.Passivation.
	Activations, Passivations map[string]uint64
	// PassivatedBytes is the sum of the sizes of encoded states, each measured when its entity was
	// passivated.
	PassivatedBytes uint64
	// MovesBegun counts the moves of shards away from the node. MovesCommitted counts the moves that
	// the new home confirmed. MovesGivenUp counts the moves that ended without a confirmation. The
	// other moves are under way.
	MovesBegun, MovesCommitted, MovesGivenUp uint64
}

// A Meter has functions that the node calls with the durations and sizes of single events, because
// the node keeps no sums of these. The calls begin when Node.Measure gets the Meter. A nil function
// is not called. Several goroutines may call a function at once, and some hold locks, so a function
// must not block and must not call the node.
type Meter struct {
	// StoreAppend is called when an append to the log of a durable type's shard has ended.
	StoreAppend func(Append)
	// MoveEnded is called when the move of a shard away from the node has ended. committed is true if
	// the new home has the shard, and false if the move was given up. pause is how long the node
	// began no turns for new calls in the shard.
	MoveEnded func(kind string, committed bool, pause time.Duration)
	// ReminderFired is called when a turn runs a reminder. late is how long ago it was due.
	ReminderFired func(kind string, late time.Duration)
	// FrameSent is called for each frame that was sent to the broker, with the number of its
	// envelopes (calls, answers and others) and its size.
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
