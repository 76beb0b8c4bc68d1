package fault

import (
	"context"
	"time"
)

// leave: a node gives its shards away on SIGTERM, and no call notices. By default
// it is the oldest, which hands off the coordinator, too.
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

// awaitMoved waits until every entity of the victim has answered elsewhere.
func awaitMoved(ctx context.Context, r *Run) error {
	name := r.Victim.Name()
	return r.Until(ctx, "its entities answer elsewhere", func() bool { return r.Load.Homes()[name] == 0 })
}
