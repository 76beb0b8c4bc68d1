package workload

import (
	"context"
	"time"
)

// A Clerk serves one call after another, each for a while: how many it can serve
// in a second is known, and so is what is too much.
//
//shard:entity shards=16
type Clerk struct {
	ID string `shard:"id"`
}

// Serve takes that long.
func (c *Clerk) Serve(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
