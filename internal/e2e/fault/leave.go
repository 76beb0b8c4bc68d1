package fault

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// leave hands off a node's shards on SIGTERM. No call fails or waits beyond the limit. The node is
// the oldest, so the coordinator moves too.
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

var leaveMany = Fault{
	Name:      "leave-many",
	About:     "five of eight nodes, the oldest among them, leave in order within a second",
	Nodes:     8,
	Singleton: true,
	Limits:    Limits{Pause: 2 * time.Second, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		callers, stop, err := startBeats(ctx, r.Cluster, false)
		if err != nil {
			return err
		}
		defer stop()
		n := (5*len(r.Nodes) + 7) / 8
		leave, stay := r.Nodes[:n], r.Nodes[n:]
		if err := r.Until(ctx, "the singleton answers at "+leave[0].Name(), answeredBy(callers, leave[0])); err != nil {
			return err
		}
		for _, b := range callers {
			b.begin()
		}
		r.Begin()
		if err := leaveApart(ctx, r, leave, time.Second/time.Duration(n)); err != nil {
			return err
		}
		err = r.Until(ctx, "no entity answers at a node that has left, nor the singleton", func() bool {
			homes := r.Load.LastSeen()
			return answeredBy(callers, stay...)() && !slices.ContainsFunc(leave, func(n *cluster.Node) bool { return homes[n.Name()] > 0 })
		})
		if err != nil {
			return err
		}
		stop()
		var of HandedStrike
		for _, b := range callers {
			b.add(&of)
		}
		r.Note("the singleton: no answer for at most %v, %d calls failed, the state of %d of %d callers went %v",
			round(of.Pause), of.Failed, of.Forgot, len(callers), of.Errors)
		if of.Failed+of.Forgot > 0 {
			r.Miss("the singleton: %d calls failed and the state of %d callers was lost, want 0", of.Failed, of.Forgot)
		}
		return nil
	},
}

// leaveApart lets nodes leave one after another: it sends a signal to each node, and sleeps for the
// time apart after each signal. Then it waits until all these nodes have ended.
func leaveApart(ctx context.Context, r *Run, nodes []*cluster.Node, apart time.Duration) error {
	for _, n := range nodes {
		if err := n.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := r.Sleep(ctx, apart); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.AwaitEnd(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rolling restarts one node after another, under its name. No call fails.
var rolling = Fault{
	Name:   "rolling-restart",
	About:  "every node is restarted, one after another, five times over",
	Limits: Limits{Pause: 250 * time.Millisecond, Recovery: unjudged},
	Within: 3 * time.Minute,
	Inject: func(ctx context.Context, r *Run) error {
		restarts := 0
		for range r.options.Rounds {
			for i, n := range r.Nodes {
				again, err := restart(ctx, r, n)
				if err != nil {
					return err
				}
				r.Nodes[i] = again
				restarts++
			}
		}
		r.Note("%d restarts", restarts)
		return nil
	},
}

// restart lets a node leave, and then starts a node with the same name. It waits until the new node
// has its share of the entities.
func restart(ctx context.Context, r *Run, n *cluster.Node) (*cluster.Node, error) {
	if err := r.Cluster.Leave(ctx, n); err != nil {
		return nil, err
	}
	started, err := r.Cluster.Start(ctx, n.Name())
	if err != nil {
		return nil, err
	}
	share := r.Share(len(r.Nodes))
	return started[0], r.Until(ctx, n.Name()+" has its share again", func() bool { return r.Load.LastSeen()[n.Name()] >= share })
}
