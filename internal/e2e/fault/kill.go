package fault

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// kill ends a process. Its volatile entities lose their state and start again elsewhere. Finished
// calls do not run again, and other entities are not disturbed.
var kill = Fault{
	Name:   "kill",
	About:  "the process of a node is killed, with SIGKILL",
	Victim: -1,
	Nodes:  5,
	Times:  20,
	Notice: 2 * time.Second,
	Strike: func(n *cluster.Node) (time.Time, error) {
		at := time.Now()
		return at, n.Kill()
	},
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 10 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		// The run must know which entities and relays lose their state. Other faults do not wait
		// for the relays.
		if err := r.Until(ctx, "every relay has answered", func() bool { return r.Load.Unseen() == 0 }); err != nil {
			return err
		}
		r.Begin()
		r.Died(r.Load.LivingAt(r.Victim.Name()))
		if err := r.Victim.Kill(); err != nil {
			return err
		}
		return awaitMoved(ctx, r)
	},
}

// durableKill kills a node of durable entities. No acknowledged change is lost, no call is applied
// twice, and no call fails.
var durableKill = Fault{
	Name:    "durable-kill",
	About:   "the process of a node with durable entities is killed, with SIGKILL",
	Subject: OnDurable,
	Nodes:   5,
	Times:   20,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 2500 * time.Millisecond},
	Hit:     killNode,
}

// inPairs lets several nodes share a server, which reports a killed node to the others at once. A
// node alone at its server is downed only after Membership.AgreedAfter.
func inPairs(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	if err != nil {
		return 2 // a caller
	}
	return (n - 1) % 5 % 2 // killNode kills nodes in turn, and the sixth node replaces the first
}

func killNode(_ context.Context, d *DurableRun) (Strike, error) {
	victim := d.Nodes[d.Before%len(d.Nodes)]
	b := Strike{Victim: victim.Name(), At: time.Now(), Nodes: []*cluster.Node{victim}}
	return b, victim.Kill()
}

var durableKillR3 = Fault{
	Name:     "durable-kill-r3",
	About:    "as durable-kill, with entities kept on three NATS servers",
	Subject:  OnDurable,
	Nodes:    5,
	Servers:  3,
	Replicas: 3,
	Times:    20,
	Rate:     1000,
	Near:     inPairs,
	Limits:   Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 5 * time.Second},
	Hit:      killNode,
}
