package remember

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Config holds the settings of a machine. A zero value means the default.
type Config struct {
	// Kinds are the remembered types by name; a missing type has the defaults.
	Kinds map[string]Kind
	// MaxBatch bounds the bytes of ids in one message; a message may exceed it by one id. Default
	// 48 KiB.
	MaxBatch int
	// Resend is the time after which a message without an answer is sent again. Default 300ms.
	Resend time.Duration
	// Patience is how long a recall waits for members that do not answer and are
	// not removed either. Default 5s.
	Patience time.Duration
	// DropDelay is how long an order to drop a set waits for further orders to the same member, to
	// be sent together. Default 1s.
	DropDelay time.Duration
}

// A Kind has the settings of one entity type.
type Kind struct {
	Replicas int // replicas of each shard, beside its home. Default 2
	Max      int // ids of one shard. Default 10,000
}

func (k Kind) withDefaults() Kind {
	if k.Replicas == 0 {
		k.Replicas = 2
	}
	if k.Max == 0 {
		k.Max = 10_000
	}
	return k
}

func (c Config) withDefaults() Config {
	set := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 48 << 10
	}
	set(&c.Resend, 300*time.Millisecond)
	set(&c.Patience, 5*time.Second)
	set(&c.DropDelay, time.Second)
	return c
}

// A Ticket identifies an Add whose answer the driver awaits. Ticket 0 means that it awaits none.
type Ticket uint64

// An Input of a [Machine] is one of [View], [Open], [Close], [Add], [Remove], [Receive] and [Tick].
// A [StoreMachine] has other inputs, too.
type Input interface{ input() }

// View lists the other members that are not down and host some type. It replaces the previous View.
type View struct{ Members []Member }

// A Member is a member of a View.
type Member struct {
	Address transport.Address
	Up      bool     // it may become a replica
	Kinds   []string // the types that it hosts
}

// Open reports that a shard runs here, under an epoch. Known says that all remembered ids are in
// IDs; otherwise the machine recalls them from other members.
type Open struct {
	placement.ShardID
	Epoch placement.Epoch
	IDs   []string
	Known bool
}

// Close reports that a shard does not run here any more.
type Close struct{ placement.ShardID }

// Add remembers an entity. The answer is a Done, at once or when the id is safe.
type Add struct {
	placement.ShardID
	ID     string
	Ticket Ticket
}

// Remove forgets an entity. There is no answer.
type Remove struct {
	placement.ShardID
	ID string
}

// Receive is a message from another member.
type Receive struct {
	From    transport.Address
	Message Message
}

// Tick means that the time WakeAt has come, or that some time has passed.
type Tick struct{}

func (View) input()    {}
func (Open) input()    {}
func (Close) input()   {}
func (Add) input()     {}
func (Remove) input()  {}
func (Receive) input() {}
func (Tick) input()    {}

// Output has the driver's work after a step of a [Machine].
type Output struct {
	Send     []Envelope
	Activate []Activate
	Done     []Done
	// Recalled are the recalls that have ended.
	Recalled []Recollection
	// WakeAt is when the next Step is due, if nothing happens before; zero means never.
	WakeAt time.Time
}

// An Envelope is a message to one member.
type Envelope struct {
	To      transport.Address
	Message Message
}

// Activate names the entities of a shard that the driver must activate, sorted. Some may be active
// already.
type Activate struct {
	placement.ShardID
	IDs []string
}

// Done answers the Add with the same Ticket.
type Done struct {
	Ticket Ticket
	New    bool  // the entity was not remembered before
	Err    error // why the entity is not remembered: ErrFull, or an error of the store
}

// A Recollection is the result of a recall; Found counts the ids found.
type Recollection struct {
	placement.ShardID
	Found  int
	Silent []transport.Address // members that had not answered within Config.Patience
}

// ErrFull means that the shard remembers as many entities as Kind.Max allows.
var ErrFull = errors.New("the shard remembers the maximum number of entities")
