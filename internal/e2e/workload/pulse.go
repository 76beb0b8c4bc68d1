package workload

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Pulse is remembered: it is activated again without a call, and records each activation.
//
//shard:entity
type Pulse struct {
	ID      string                                  `shard:"id"`
	Node    string                                  `shard:"-"` // where it lives
	Witness func(entity, sender string, seq uint64) // of its activations
}

// PulseBegan is the number with which a Pulse records that it is [shard.Fresh]: it did not come
// along with its shard.
const PulseBegan = 1 + uint64(shard.Fresh)

// OnActivate records the activation, with a number that stands for its reason.
func (p *Pulse) OnActivate(_ context.Context, why shard.Activation) error {
	p.Witness(p.ID, p.Node, 1+uint64(why))
	return nil
}

// Beat returns where it lives.
func (p *Pulse) Beat(context.Context) (node string, err error) { return p.Node, nil }
