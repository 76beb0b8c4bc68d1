package shardhost

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Config has the settings shared by the shards of one kind at a process.
type Config struct {
	Kind []byte // name of the kind on the wire
	Self transport.Address
	// CallTimeout bounds how long a call waits for the shard to open. It does not apply to a shard
	// that is about to move away.
	CallTimeout time.Duration
	// HandoffTimeout bounds each step of a move that waits for turns, hooks or the other process.
	HandoffTimeout time.Duration
	// Drops means that shards move without their entities' states.
	Drops bool
	// Settles means that the homes of the shards are in a shard table, so this process may later
	// forget a shard that has left.
	Settles bool
	Watch   Watch // nil: no watch
	// Clock is the coarse clock. Its value is the parameter now of region.Shard's methods.
	Clock *atomic.Uint32
	// Keeps reports whether the host itself continues the turn that e is about to end; nil means
	// never. It is called with Mu held.
	Keeps func(*region.Entity) bool
}

// A Watch observes the shards of one kind. Its methods must not block. Several goroutines may call
// them at once, with a shard's lock held or without.
type Watch interface {
	// MoveBegun is called when a shard begins to move away from this process.
	MoveBegun()
	// MoveEnded is called when such a move ends. moved means that the new home has the shard;
	// otherwise the move was given up. pause is how long the shard began no turns of new calls here.
	MoveEnded(moved bool, pause time.Duration)
	// Refused is called when an accepted call did not run and was answered with that code.
	Refused(wire.Code)
}

// A departing records a move away from this process, for a Watch.
type departing struct {
	on    bool
	since time.Time // when the shard stopped beginning turns; zero means that it still begins turns
}

// follow reports to w if a move has begun or ended since the last call of follow. The caller has
// the shard's lock.
func (d *departing) follow(w Watch, core *region.Shard, now func() time.Time) {
	state := core.State()
	_, _, offered := core.Underway()
	draining := state == region.Draining || state == region.Sent
	if on := draining || offered; on != d.on {
		if d.on = on; on {
			w.MoveBegun()
		} else {
			pause := time.Duration(0)
			if !d.since.IsZero() {
				pause = now().Sub(d.since)
			}
			w.MoveEnded(state == region.Forwarding, pause)
			d.since = time.Time{}
		}
	}
	if draining && d.since.IsZero() {
		d.since = now()
	}
}
