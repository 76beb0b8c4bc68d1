package fault

import (
	"context"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// Lanes has the frames that took direct lanes in a run. Nil is a run without direct lanes, and all
// methods may be called on it.
type Lanes struct {
	Nodes, Callers cluster.Frames
}

// countLanes counts the frames of a run until now. Those of nodes that have ended are left out.
func countLanes(ctx context.Context, c *cluster.Cluster, o Options) (*Lanes, error) {
	if !o.Cluster.Direct {
		return nil, nil
	}
	count, err := c.Frames(ctx)
	if err != nil {
		return nil, err
	}
	return &Lanes{count.Nodes(), count.Callers()}, nil
}

// String says how many frames took direct lanes.
func (l *Lanes) String() string {
	if l == nil {
		return "no direct lanes"
	}
	return fmt.Sprintf("data frames on direct lanes: %s of nodes, %s of callers", ofAll(l.Nodes), ofAll(l.Callers))
}

func ofAll(f cluster.Frames) string {
	return fmt.Sprintf("%d of %d (%d%%)", f.Direct, f.All, f.Direct*100/max(f.All, 1))
}

// print writes a line about the frames.
func (l *Lanes) print(w io.Writer) {
	if l != nil {
		fmt.Fprintln(w, l)
	}
}

// missed is a sentence if a run that was to have direct lanes had none, and so shows nothing of
// them.
func (l *Lanes) missed() (misses []string) {
	if l != nil && (l.Nodes.Direct == 0 || l.Callers.Direct == 0) {
		misses = append(misses, fmt.Sprintf("%v, want some of both", l))
	}
	return misses
}
