package workload

import (
	"context"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Treasurer is a [Leader] that is durable: calls that it has answered survive its process.
//
//shard:singleton durable
type Treasurer struct {
	// Last is the latest sequence number of each sender.
	Last map[string]uint64 `shard:"state"`

	Node  string                `shard:"-"` // where it lives
	Trace func(time.Time) error `shard:"-"` // that it lives at that moment
}

// OnActivate begins the trace.
func (t *Treasurer) OnActivate(ctx context.Context, _ shard.Activation) error {
	return shard.Go(ctx, func(ctx context.Context) error { return live(ctx, t.Trace) })
}

// Beat is [Leader.Beat]. A number that is not the next one shows that a call was lost, or applied
// twice.
func (t *Treasurer) Beat(_ context.Context, sender string, seq uint64) (node string, fresh bool, err error) {
	fresh, err = note(&t.Last, sender, seq)
	return t.Node, fresh, err
}
