package shardtest

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// Turn runs a turn that w watches.
func Turn(ctx context.Context, w *Witness, call shard.Info, turn func(context.Context) error) error {
	return w.intercept(ctx, call, turn)
}
