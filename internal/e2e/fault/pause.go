package fault

import (
	"context"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// pause is the fault in which a process stands still for a moment, as a virtual machine that is
// moved. Calls to it wait, and nobody gives it up.
var pause = Fault{
	Name:   "pause",
	About:  "the process of a node stands still for 2s, by SIGSTOP, and goes on",
	Victim: -1,
	Nodes:  5,
	Length: 2 * time.Second,
	Spares: true,
	Limits: Limits{Pause: 4 * time.Second, Recovery: 5 * time.Second},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.Victim.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := r.Sleep(ctx, r.Length)
		if cont := r.Victim.Signal(syscall.SIGCONT); err == nil {
			err = cont
		}
		return err
	},
}

// durablePause is the fault in which a process with durable entities stands still so long that
// others take its shards over. Its late writes are refused.
var durablePause = Fault{
	Name:    "durable-pause",
	About:   "the process of a node with durable entities stands still for 30s, by SIGSTOP, and goes on",
	Subject: OnDurable,
	Nodes:   5,
	Times:   5,
	Rate:    1000,
	Length:  30 * time.Second,
	// 5 s of silence until more than half agree, and a lease that is over by then.
	Limits: Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 10 * time.Second},
	Hit: func(_ context.Context, d *DurableRun) (Strike, error) {
		victim := d.Nodes[d.Before%len(d.Nodes)]
		b := Strike{
			Victim: victim.Name(), At: time.Now(), Nodes: []*cluster.Node{victim}, Length: d.Length, Stays: true,
			End: func(context.Context) error { return victim.Signal(syscall.SIGCONT) },
		}
		return b, victim.Signal(syscall.SIGSTOP)
	},
}
