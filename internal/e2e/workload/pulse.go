package workload

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Pulse is remembered: it is activated again by itself, and leaves word of each life.
//
//shard:entity
type Pulse struct {
	ID      string                                  `shard:"id"`
	Node    string                                  `shard:"-"` // where it lives
	Witness func(entity, sender string, seq uint64) // of its lives
}

// PulseBegan is the number under which a Pulse leaves word of a life that did not
// come along with its shard.
const PulseBegan = 1 + uint64(shard.Fresh)

// OnActivate leaves word.
func (p *Pulse) OnActivate(_ context.Context, why shard.Activation) error {
	p.Witness(p.ID, p.Node, 1+uint64(why))
	return nil
}

// Beat returns where it lives.
func (p *Pulse) Beat(context.Context) (node string, err error) { return p.Node, nil }
