package verdict

import (
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/transport"
)

// The names of checks.
const (
	Cluster     = "cluster" // members, shards and singletons
	Answers     = "answers"
	Ready       = "ready"
	Table       = "table" // the membership table
	Store       = "store" // writes of durable entities
	Turns       = "turns"
	Buffers     = "buffers"
	Clients     = "clients"
	Credentials = "credentials"
	Clocks      = "clocks"
	Payload     = "payload"
	Versions    = "versions"
	Contracts   = "contracts"
	Interest    = "interest"
	Rights      = "rights"
	JetStreams  = "jetstream"
	Streams     = "streams"
)

// A Snapshot is what is known of a cluster at one moment. Judge skips the checks of parts that are
// missing.
type Snapshot struct {
	Now time.Time
	// Err is why the request for the members failed; nil if it was answered or not made.
	Err error
	// View is the view of the process itself, or of a member that has answered.
	View operator.View
	// Answers has the answers of all members, or only a process's own in its own snapshot.
	Answers []Answer
	// Self is the process that judges itself; nil for an operator.
	Self *Process
	// Downed are the names of the members that were lost since the last snapshot. Members that have
	// left in order or that an operator has downed are missing.
	Downed []string
	// Past is what a Memory remembers of earlier snapshots.
	Past Past
	// Denied are log lines of members about rights that the broker has refused to these members.
	Denied []Denial
	// Checked are findings of checks that Judge cannot make, such as those of shardctl doctor.
	Checked []operator.Finding
	// JetStream is what the NATS servers answer; nil if they were not asked.
	JetStream *JetStream
}

// An Answer has the answers of one member.
type Answer struct {
	Node            transport.Address
	Types           []operator.Type // of its shards
	Fact            *operator.Fact
	Asked, Answered time.Time // by the clock of the operator, when Fact was asked and came
	Err             error     // why the member did not answer, or nil
}

// A Process is what a process knows of itself. Its texts are reasons; "" means that there is no
// such fault.
type Process struct {
	Name    string
	Ended   string // the reason why it has ended; nothing else is then judged
	Stopped string // why it has not started, or stops
	Outside string // why it is not a full member or, of a client, why no member serves it
	Leaving string
	Lease   string // why it runs no turns
	// Stuck is how long its control loop has not run, and Away how long it has had no connection to
	// the broker.
	Stuck, Away time.Duration
	MinMembers  int // of its config
	Durable     bool
	// Store is why the store takes no writes of the process, and StoreSince since when. "" means
	// that the store takes writes, or that no write has shown otherwise.
	Store      string
	StoreSince time.Time
	// Table is why the membership table does not answer, and TableSince since when.
	Table      string
	TableSince time.Time
	ClockAhead time.Duration // how far its clock is ahead of the store's; 0 if unknown
	Writes     []Writes
	Turns      []Turn // that may hang
	// BufferBytes is the size of the calls that wait, and BufferLimit its bound.
	BufferBytes, BufferLimit int64
	Overloaded               uint64 // calls refused because there is no room, since its start
	OverQuota                uint64 // messages and sessions of clients beyond their bounds, since its start
	Expiries                 []transport.Expiry
}

// Writes are the failing or slow writes of one durable type.
type Writes struct {
	Kind   string
	Shards int
	Since  time.Time
	Err    error         // of the last write; nil means that writes are slow
	Took   time.Duration // of a slow write, which may still wait
}

// A Turn is a turn that may hang.
type Turn struct {
	operator.Turn
	Number  uint32    // changes when a turn of the entity ends
	Since   time.Time // when it began; zero means that it is not known
	Waiting int       // calls that wait behind it
}

// A Denial is a right that the broker has refused.
type Denial struct {
	Node string
	At   time.Time
	Why  string
}

// A JetStream is what an operator has learnt of the servers that keep the store.
type JetStream struct {
	Store    string // prefix of the streams
	Replicas int    // of the members' configs; 0 means unknown
	Limits   []Limit
	Bytes    uint64 // used by the account
	Streams  []Stream
	Missing  []string // streams that do not answer
	Offline  map[string]string
}

// A Limit is the use of a limited resource.
type Limit struct {
	Text, Do string
	Used     uint64
	Most     int64 // 0 or below means that there is no limit
}

// A Stream is one stream of the store.
type Stream struct {
	Name               string
	Leader             string // "" in a cluster means that it has none
	Clustered          bool
	Replicas           int // of its config
	Peers              []Peer
	Bytes, Messages    uint64
	MaxBytes, MaxCount int64
}

// A Peer is a replica of a stream, not the leader's.
type Peer struct {
	Name    string
	Offline bool
	Current bool
	Lag     uint64        // messages
	Silent  time.Duration // since the leader has heard it
}
