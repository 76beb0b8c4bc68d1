package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
)

// tableOutage makes the membership table unreachable for all nodes: first it does not answer, then
// it refuses connections. No node is removed, and calls are served. A node that was started
// meanwhile comes up when the table is back.
var tableOutage = Fault{
	Name:   "table-outage",
	About:  "no node reaches the membership table for 30s",
	Nodes:  5,
	Length: 30 * time.Second,
	Table:  true,
	Spares: true,
	Within: time.Minute,
	Limits: Limits{Pause: time.Second, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		r.withhold(r.Nodes, true)
		if err := r.Sleep(ctx, r.Length/2); err != nil {
			return err
		}
		late, err := r.Cluster.Launch("late")
		if err != nil {
			return err
		}
		r.refuse(append([]*cluster.Node{late}, r.Nodes...), true)
		if err := r.Sleep(ctx, r.Length/2); err != nil {
			return err
		}
		if slices.ContainsFunc(late.Said(), func(e process.Event) bool { return e.Event == node.Up }) {
			r.Miss("a node joined while the table was out of reach")
		}
		r.misses = append(r.misses, r.removed()...)
		r.refuse(append([]*cluster.Node{late}, r.Nodes...), false)
		r.withhold(r.Nodes, false)
		return late.Await(ctx, node.Up)
	},
}

// tableHalf kills more than half of the nodes. The other nodes go on, because the membership table
// decides which nodes are dead. With gossip, the other nodes would stop, because they are less than
// half.
var tableHalf = Fault{
	Name:  "table-half",
	About: "three of five nodes, the oldest among them, are killed at once, with SIGKILL",
	Nodes: 5,
	Table: true,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 5 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.spread(ctx); err != nil {
			return err
		}
		n := len(r.Nodes)/2 + 1
		r.Begin()
		killed := r.Strike(r.Nodes[:n]...)
		for _, v := range killed {
			r.Died(v.living)
			if err := v.node.Kill(); err != nil {
				return err
			}
		}
		err := r.Until(ctx, "their entities answer elsewhere", func() bool {
			homes := r.Load.LastSeen()
			for _, v := range killed {
				if homes[v.node.Name()] > 0 {
					return false
				}
			}
			return true
		})
		for _, v := range killed {
			r.noteRemoval("", v, certainlyRemoved)
		}
		return errors.Join(err, r.judgeHomes(killed...))
	},
}

// tableSplit keeps some nodes from the table, and none of them is removed for that. Then a node
// that reaches the table is killed, and replaced as usual.
var tableSplit = Fault{
	Name:   "table-split",
	About:  "two of five nodes do not reach the membership table for 30s; then one of the others is killed",
	Nodes:  5,
	Length: 30 * time.Second,
	Table:  true,
	Within: time.Minute,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 5 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.spread(ctx); err != nil {
			return err
		}
		apart, last := r.Nodes[:2*len(r.Nodes)/5], r.Nodes[len(r.Nodes)-1]
		r.withhold(apart, true)
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		r.misses = append(r.misses, r.removed()...)
		if n, first, _ := r.Load.Failures(r.began); n > 0 {
			r.Miss("%d bursts of calls failed while the table was out of reach, from %v", n, round(first.Sub(r.began)))
		}
		r.Begin()
		r.Victim = last
		killed := r.Strike(last)
		r.Died(killed[0].living)
		if err := last.Kill(); err != nil {
			return err
		}
		err := awaitMoved(ctx, r)
		r.noteRemoval("", killed[0], certainlyRemoved)
		r.withhold(apart, false)
		return errors.Join(err, r.judgeHomes(killed...))
	},
}

// changeOver changes from gossip to a membership table, or back. Members refuse a node of the other
// kind with an error that names both. Then all nodes leave, and nodes of the other kind start.
var changeOver = Fault{
	Name:    "change-over",
	About:   "a node that agrees by a table joins a cluster that agrees by gossip, or the reverse, and is refused; then all leave, and such nodes are started",
	Subject: OnDurable,
	Nodes:   3,
	Servers: 1,
	Times:   4,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 5 * time.Second},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		kinds := map[string]string{"": node.JetStream, node.JetStream: ""}
		b := Strike{Victim: fmt.Sprintf("all %d nodes", len(d.Nodes))}
		d.Cluster.SetTable(kinds[d.Cluster.Table()])
		refused, err := d.Cluster.Launch(fmt.Sprint("intruder", d.Before))
		if err != nil {
			return b, err
		}
		if err := refused.AwaitEnd(ctx); err == nil || !strings.Contains(err.Error(), `membership is "`) {
			return b, fmt.Errorf("start a node with the other kind of membership: got %v, want an error that names both", err)
		}
		for _, n := range d.Nodes {
			// A node from the previous strike may still be joining, although the other nodes answer
			// already. With a signal now, it would fail to start instead of leaving.
			if err := n.Await(ctx, node.Up); err != nil {
				return b, err
			}
			if err := n.Signal(syscall.SIGTERM); err != nil {
				return b, err
			}
		}
		b.At = time.Now()
		var started []*cluster.Node
		for _, n := range d.Nodes {
			if err := n.AwaitEnd(ctx); err != nil {
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

// withhold sets whether the table's answers to these nodes are held back.
func (r *Run) withhold(nodes []*cluster.Node, on bool) {
	for _, n := range nodes {
		r.Cluster.TableProxy(n.Name()).Hold(on)
	}
}

// refuse sets whether these nodes' connections to the table are reset and refused.
func (r *Run) refuse(nodes []*cluster.Node, on bool) {
	for _, n := range nodes {
		p := r.Cluster.TableProxy(n.Name())
		p.Refuse(on)
		if on {
			p.Cut(true)
		}
	}
}
