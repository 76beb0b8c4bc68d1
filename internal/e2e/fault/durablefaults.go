package fault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// inPairs has each node connect to a server to which another node connects, too. That one
// learns from the server at once that the node is gone; of a node that is alone at its
// server the others hear nothing, which takes Membership.AgreedAfter.
func inPairs(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	if err != nil {
		return 2 // a caller
	}
	return (n - 1) % 5 % 2 // killNode goes round, and the sixth node takes the place of the first
}

// killNode kills one node: the oldest, too, which coordinates.
func killNode(_ context.Context, d *DurableRun) (Blow, error) {
	victim := d.Nodes[d.Round%len(d.Nodes)]
	b := Blow{Victim: victim.Name(), At: time.Now(), Nodes: []*cluster.Node{victim}}
	return b, victim.Kill()
}

// durableKillR3 is durableKill with entities on three servers.
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

// durablePause: a process with durable entities stands still so long that others take its
// shards over. What it still had to write when it goes on is refused.
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
	Hit: func(_ context.Context, d *DurableRun) (Blow, error) {
		victim := d.Nodes[d.Round%len(d.Nodes)]
		b := Blow{
			Victim: victim.Name(), At: time.Now(), Nodes: []*cluster.Node{victim}, Length: d.Length, Stays: true,
			End: func(context.Context) error { return victim.Signal(syscall.SIGCONT) },
		}
		return b, victim.Signal(syscall.SIGSTOP)
	},
}

// durableRestart: all processes are killed at the same moment, and others started.
var durableRestart = Fault{
	Name:    "durable-restart",
	About:   "the processes of all nodes with durable entities are killed together, with SIGKILL, and others are started",
	Subject: OnDurable,
	Nodes:   5,
	Times:   3,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 5 * time.Second},
	Hit: func(ctx context.Context, d *DurableRun) (Blow, error) {
		all := slices.Clone(d.Nodes)
		b := Blow{Victim: fmt.Sprintf("all %d nodes", len(all)), At: time.Now(), Nodes: all}
		for _, n := range all {
			if err := n.Signal(syscall.SIGKILL); err != nil {
				return b, err
			}
		}
		var started []*cluster.Node
		for _, n := range all {
			if err := n.Kill(); err != nil { // waits for its end
				return b, err
			}
			d.started++
			again, err := d.Cluster.Launch(fmt.Sprint("n", d.started))
			if err != nil {
				return b, err
			}
			started = append(started, again)
		}
		d.Nodes = started
		return b, nil
	},
}

// durableServer: the only server, which keeps the entities, is killed. Calls wait until it
// is back.
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
	Hit: func(ctx context.Context, d *DurableRun) (Blow, error) {
		server := d.Cluster.Servers()[0]
		if err := server.Kill(); err != nil {
			return Blow{}, err
		}
		if err := sleep(ctx, d.Length); err != nil {
			return Blow{}, err
		}
		err := server.Start()
		return Blow{Victim: "the server", At: time.Now()}, err
	},
}

// durableServerR3: one of the three servers that keep the entities is killed, in turn.
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
	// The streams that it led elect others, which takes NATS 4 to 9 s.
	Limits: Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 12 * time.Second},
	Hit: func(_ context.Context, d *DurableRun) (Blow, error) {
		servers := d.Cluster.Servers()
		victim := d.Round % len(servers)
		b := Blow{
			Victim: fmt.Sprintf("server %d of %d", victim+1, len(servers)), At: time.Now(), Length: d.Length, Slowest: true,
			End: func(context.Context) error { return servers[victim].Start() },
		}
		return b, servers[victim].Kill()
	},
}
