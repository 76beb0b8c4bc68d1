package fault

import (
	"context"
	"time"
)

// leave is the fault in which a node hands off its shards on SIGTERM, and no call fails or
// waits longer than the limit. By default the node is the oldest, which hands off the
// coordinator, too.
var leave = Fault{
	Name:   "leave",
	About:  "a node leaves in order, on SIGTERM",
	Victim: 1,
	Limits: Limits{Pause: 250 * time.Millisecond, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.Cluster.Leave(ctx, r.Victim); err != nil {
			return err
		}
		return awaitMoved(ctx, r)
	},
}
