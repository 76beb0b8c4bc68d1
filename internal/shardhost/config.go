package shardhost

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/transport"
)

// A Config has the settings shared by the shards of one kind at a process.
type Config struct {
	Kind []byte // its name on the wire
	Self transport.Address
	// CallTimeout bounds how long calls wait for the shard to open, unless it is about to move away.
	CallTimeout time.Duration
	// HandoffTimeout bounds each step of a move that may wait for others.
	HandoffTimeout time.Duration
	// Drops: shards move without their state.
	Drops bool
	// Settles: a table names the shard's home, so that it need not be known here forever.
	Settles bool
	Watch   Watch // nil: nobody watches
	// Clock is the coarse clock that region.Shard takes as now.
	Clock *atomic.Uint32
	// Keeps reports whether the host keeps the turn that ends; nil means it keeps none. It is called
	// with Mu held.
	Keeps func(*region.Entity) bool
}
