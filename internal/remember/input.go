package remember

import (
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Ticket identifies an Add for whose answer the driver waits; 0 for none.
type Ticket uint64

// An Input of a [Machine] is one of [View], [Open], [Close], [Add], [Remove], [Receive] or
// [Tick]. A [StoreMachine] has others.
type Input interface{ input() }

// View is the other members that are not down and host something. It replaces the
// last one.
type View struct{ Members []Member }

// A Member is a member of a View.
type Member struct {
	Address transport.Address
	Up      bool     // it may be given something to keep
	Kinds   []string // that it hosts
}

// Open says that a shard runs here, under that epoch. With Known its ids came with it,
// or none were lost; otherwise they are recalled.
type Open struct {
	placement.ShardID
	Epoch placement.Epoch
	IDs   []string
	Known bool
}

// Close says that a shard no longer runs here.
type Close struct{ placement.ShardID }

// Add remembers an entity. It is done at once, or when the id is safe.
type Add struct {
	placement.ShardID
	ID     string
	Ticket Ticket
}

// Remove forgets an entity.
type Remove struct {
	placement.ShardID
	ID string
}

// Receive is a message that arrived.
type Receive struct {
	From    transport.Address
	Message Message
}

// Tick means that WakeAt has been reached, or merely that time has passed.
type Tick struct{}

func (View) input()    {}
func (Open) input()    {}
func (Close) input()   {}
func (Add) input()     {}
func (Remove) input()  {}
func (Receive) input() {}
func (Tick) input()    {}
