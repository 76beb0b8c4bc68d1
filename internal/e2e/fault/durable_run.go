package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// A DurableRun is a cluster with durable entities that are called all the time.
type DurableRun struct {
	Cluster *cluster.Cluster
	Nodes   []*cluster.Node // all that are members
	Before  int             // the number of strikes before this one
	Length  time.Duration   // of one strike

	started int // nodes, for their names
}

// start starts one more node and waits until it is up.
func (d *DurableRun) start(ctx context.Context) error {
	d.started++
	n, err := d.Cluster.Start(ctx, fmt.Sprint("n", d.started))
	d.Nodes = append(d.Nodes, n...)
	return err
}

// replace starts a node in the place of each that has ended.
func (d *DurableRun) replace(ctx context.Context) error {
	for i, n := range d.Nodes {
		if !n.Ended() {
			continue
		}
		if err := d.start(ctx); err != nil {
			return err
		}
		last := len(d.Nodes) - 1
		d.Nodes[i], d.Nodes = d.Nodes[last], d.Nodes[:last]
	}
	return nil
}

// A Strike is one occurrence of a fault, under way.
type Strike struct {
	Victim string    // the node, nodes or server that were hit
	At     time.Time // answers again are measured from here
	// Nodes are those whose entities are concerned; nil means all entities.
	Nodes []*cluster.Node
	// End ends the strike, Length after At. Nil means that it has ended.
	Length time.Duration
	End    func(ctx context.Context) error
	// Stays says that the nodes stay, or may stay, and that their own answers count after the end.
	Stays bool
	// Slowest has an entity's slowest call judged, up to the first that was made after the
	// end, and not the time of its next answer.
	Slowest bool
}
