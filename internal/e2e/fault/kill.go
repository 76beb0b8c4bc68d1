package fault

import (
	"context"
	"time"
)

// kill: a process dies with the state of its entities. They live again elsewhere,
// empty; what ran there never runs again, and the others feel nothing.
var kill = Fault{
	Name:   "kill",
	About:  "the process of a node is killed, with SIGKILL",
	Victim: -1,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 10 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		r.Died(r.Load.LivingAt(r.Victim.Name()))
		if err := r.Victim.Kill(); err != nil {
			return err
		}
		return awaitMoved(ctx, r)
	},
}
