package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/load"
)

// natsOutage stops the only NATS server for a long time. Meanwhile no call runs, because no node
// knows whether another node took over its shards. No node is removed, and calls succeed when the
// server is back.
var natsOutage = Fault{
	Name:    "nats-outage",
	About:   "the NATS server is stopped, and started again after 30s",
	Nodes:   5,
	Servers: 1,
	Length:  30 * time.Second,
	Spares:  true,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 5 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		server := r.Cluster.Servers()[0]
		before, err := callRate(ctx, r.Load)
		if err != nil {
			return err
		}
		if err := server.Stop(); err != nil {
			return err
		}
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		if err := server.Start(); err != nil {
			return err
		}
		r.Begin() // figures count from the server's return
		return outage{r, before}.recover(ctx)
	},
}

// natsRestart stops one of several servers briefly. Its clients connect to the other servers.
var natsRestart = Fault{
	Name:    "nats-restart",
	About:   "one of three NATS servers is killed, and started again after 2s",
	Nodes:   5,
	Servers: 3,
	Length:  2 * time.Second,
	Spares:  true,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: 5 * time.Second, Recovery: 5 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		server := r.Cluster.Servers()[0]
		before, err := callRate(ctx, r.Load)
		if err != nil {
			return err
		}
		r.Begin()
		if err := server.Kill(); err != nil {
			return err
		}
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		if err := server.Start(); err != nil {
			return err
		}
		return outage{r, before}.recover(ctx)
	},
}

const rateWindow = time.Second

func callRate(ctx context.Context, l *load.Load) (float64, error) {
	begin, well := time.Now(), l.Made()-l.Failed()
	err := sleep(ctx, rateWindow)
	return float64(l.Made()-l.Failed()-well) / time.Since(begin).Seconds(), err
}

// leastRate is the share of the former rate that counts as recovered. It is below 1, because the
// rates of windows differ a little.
const leastRate = 0.9

// An outage measures how calls recover from a fault of the broker.
type outage struct {
	*Run
	before float64 // calls/s before the fault
}

// recover waits until calls reach the former rate in two windows in a row, because the first window
// also counts calls that had waited.
func (o outage) recover(ctx context.Context) error {
	for windows := 0; ; {
		after, err := callRate(ctx, o.Load)
		if err != nil {
			return err
		}
		took := time.Since(o.began)
		if windows++; after < leastRate*o.before {
			windows = 0
		}
		switch {
		case windows == 2:
			o.Note("%.0f calls a second went well before, %.0f in the second up to %v", o.before, after, took.Round(time.Millisecond))
			return nil
		case took > o.options.Settle:
			o.Miss("%.0f calls a second succeeded before the fault, %.0f in the second that ended %v after it: want the former rate within %v", o.before, after, took.Round(time.Millisecond), o.options.Settle)
			return nil
		}
	}
}

var durableServer = Fault{
	Name:    "durable-server",
	About:   "the only NATS server, which keeps the durable entities, is killed, with SIGKILL, and started again after 1s",
	Subject: OnDurable,
	Nodes:   5,
	Servers: 1,
	Times:   10,
	Rate:    1000,
	Length:  time.Second,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 2500 * time.Millisecond},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		server := d.Cluster.Servers()[0]
		if err := server.Kill(); err != nil {
			return Strike{}, err
		}
		if err := sleep(ctx, d.Length); err != nil {
			return Strike{}, err
		}
		err := server.Start()
		return Strike{Victim: "the server", At: time.Now()}, err
	},
}

// serverCrashUnsynced makes the server lose the writes that were not on its disk yet. The nodes
// survive, and send the lost changes to the server again. If no node has the lost changes of a
// shard any more, the shard is not opened, and calls to it fail.
var serverCrashUnsynced = Fault{
	Name:    "server-crash-unsynced",
	About:   "the only NATS server is killed, with SIGKILL, and started again with its store as it was 5s earlier",
	Subject: OnDurable,
	Nodes:   5,
	Servers: 1,
	Times:   3,
	Rate:    1000,
	Length:  5 * time.Second,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Closed: unjudged, Recovery: 5 * time.Second},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		crash, err := d.Cluster.Servers()[0].Sync()
		if err != nil {
			return Strike{}, err
		}
		if err := sleep(ctx, d.Length); err != nil {
			return Strike{}, err
		}
		err = crash()
		return Strike{Victim: "the machine of the server", At: time.Now()}, err
	},
}

// brokerStallKill kills a node while the broker stands still. When the broker goes on, the others must
// find the node gone.
var brokerStallKill = Fault{
	Name:    "broker-stall-kill",
	About:   "a node with durable entities is killed, with SIGKILL, while the only NATS server stands still for 3s, by SIGSTOP",
	Subject: OnDurable,
	Nodes:   5,
	Servers: 1,
	Times:   10,
	Rate:    1000,
	Length:  3 * time.Second,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 2 * time.Second}, // after the server goes on
	Hit: func(ctx context.Context, d *DurableRun) (b Strike, err error) {
		server := d.Cluster.Servers()[0]
		if err := server.Pause(); err != nil {
			return b, err
		}
		defer func() {
			if goOn := server.Resume(); err == nil {
				err = goOn
			}
			b.At = time.Now()
		}()
		if err := sleep(ctx, d.Length/2); err != nil {
			return b, err
		}
		if b, err = killNode(ctx, d); err != nil {
			return b, err
		}
		return b, sleep(ctx, d.Length/2)
	},
}

var durableServerR3 = Fault{
	Name:     "durable-server-r3",
	About:    "one of three NATS servers, which keep the durable entities, is killed, with SIGKILL, and started again after 2s",
	Subject:  OnDurable,
	Nodes:    5,
	Servers:  3,
	Replicas: 3,
	Times:    10,
	Rate:     1000,
	Length:   2 * time.Second,
	// Streams whose leader was the victim elect another, which takes NATS 4 to 9 s.
	Limits: Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 12 * time.Second},
	Hit: func(_ context.Context, d *DurableRun) (Strike, error) {
		servers := d.Cluster.Servers()
		victim := d.Before % len(servers)
		b := Strike{
			Victim: fmt.Sprintf("server %d of %d", victim+1, len(servers)), At: time.Now(), Length: d.Length, Slowest: true,
			End: func(context.Context) error { return servers[victim].Start() },
		}
		return b, servers[victim].Kill()
	},
}
