package fault

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// join lets a node join and get its share of the entities. No call fails.
var join = Fault{
	Name:   "join",
	About:  "a node joins and takes its share of the shards",
	Limits: Limits{Pause: 250 * time.Millisecond, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		o, err := observe(ctx, r)
		if err != nil {
			return err
		}
		defer func() { _ = o.Close() }() // an error of Close harms nothing: the node hosts nothing
		started, err := r.Cluster.Start(ctx, "joiner")
		if err != nil {
			return err
		}
		name, up := started[0].Name(), time.Now()
		for {
			stats, err := o.Shards(ctx, "")
			if err != nil {
				return err
			}
			s := spreadOf(stats)
			if took := time.Since(up); s.even(len(r.Nodes) + 1) {
				moved := s.total(name)
				r.Note("%d shards on %d nodes, even within 1 of each type; %d moved to %s within %v of its being up: %.0f a second",
					s.total(""), len(s.nodes), moved, name, round(took), float64(moved)/took.Seconds())
				return nil
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("wait until the shards are even: %w", context.Cause(ctx))
			}
		}
	},
}

// observe joins as a member without entities, to ask for the cluster's state.
func observe(ctx context.Context, r *Run) (*shard.Node, error) {
	table, err := r.Cluster.OpenTable(ctx)
	if err != nil {
		return nil, err
	}
	config := shard.Config{
		Cluster: r.Cluster.Name(), Name: "observer", Transport: natstransport.New(r.Cluster.URL()),
		Logger: slog.New(slog.DiscardHandler),
	}
	config.Membership.Table.Store = table
	o := shard.New(config)
	if err := o.Start(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

type spread struct {
	nodes map[string]map[string]int
	kinds map[string]bool
	busy  int // shards that are moving
}

func spreadOf(stats shard.Shards) spread {
	s := spread{nodes: map[string]map[string]int{}, kinds: map[string]bool{}}
	for node, shards := range stats.Nodes {
		s.nodes[node] = map[string]int{}
		for _, sh := range shards {
			switch sh.State {
			case "active":
				s.nodes[node][sh.Kind]++
				s.kinds[sh.Kind] = true
			case "forwarding":
			default:
				s.busy++
			}
		}
	}
	return s
}

// even reports whether no shard moves and the nodes have equal shares of each type.
func (s spread) even(nodes int) bool {
	if len(s.nodes) != nodes || s.busy > 0 {
		return false
	}
	for kind := range s.kinds {
		low, high := 1<<30, 0
		for _, n := range s.nodes {
			low, high = min(low, n[kind]), max(high, n[kind])
		}
		if high-low > 1 {
			return false
		}
	}
	return true
}

func (s spread) total(node string) (n int) {
	for name, kinds := range s.nodes {
		for _, shards := range kinds {
			if node == "" || node == name {
				n += shards
			}
		}
	}
	return n
}

var twoStores = Fault{
	Name:    "two-stores",
	About:   "a node whose store has another name joins, and must be refused",
	Subject: OnDurable,
	Nodes:   3,
	Servers: 1,
	Times:   5,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 2500 * time.Millisecond},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		other, err := natsstore.Open(ctx, d.Cluster.URL(), natsstore.Config{Name: "other"})
		if err != nil {
			return Strike{}, err
		}
		defer other.Close()
		b := Strike{Victim: "nobody", At: time.Now()}
		n := shard.New(shard.Config{
			Cluster: d.Cluster.Name(), Name: fmt.Sprint("intruder", d.Before), Transport: natstransport.New(d.Cluster.URL()), Store: other,
		})
		defer func() { _ = n.Close() }()
		if err := n.Start(ctx); err == nil || !strings.Contains(err.Error(), "Config.Store is") {
			return b, fmt.Errorf("start a node with another store: got %v, want an error that names both", err)
		}
		return b, nil
	},
}
