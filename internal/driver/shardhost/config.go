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

// A Watch follows the shards of one kind. Its methods are called with a shard's lock
// held, or without, by several goroutines at once, and must not block.
type Watch interface {
	// MoveBegun: a shard begins to move away from here.
	MoveBegun()
	// MoveEnded: the move has ended, by the new home's word that it has the shard, or because it
	// was given up. Pause is how long the shard began no turns of new calls here.
	MoveEnded(moved bool, pause time.Duration)
	// Refused: an accepted call did not run, and was answered with that code.
	Refused(wire.Code)
}

// A departing is the progress of a move away from here, for a Watch. The zero value is none.
type departing struct {
	on    bool
	since time.Time // when the shard stopped to begin turns; zero means it has not
}

// follow tells the watch of a move away that has begun or ended. The shard's lock is held.
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
