package shardtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

const (
	patience = 10 * time.Minute // bounds each wait
	look     = 10 * time.Millisecond
	calm     = time.Second // for which no shard has moved in a settled cluster
)

// bounded returns a context for a wait of a test.
func bounded(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// await waits until done returns nil, and fails the test with its last error.
func await(t testing.TB, what string, done func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(look) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// settled returns the number of moves of shards so far, and an error with the reason if the cluster
// has not settled.
func settled(c *Cluster) (moves uint64, err error) {
	names := c.Running()
	for _, name := range names {
		n := c.process(name).node
		moves += n.Counters()["shard moved in"]
		v := n.Cluster()
		var up []string
		for _, m := range v.Members {
			if m.Status == shard.MemberUp && m.Reachable {
				up = append(up, m.Name)
			}
		}
		slices.Sort(up)
		switch {
		case !slices.Equal(up, names) || len(v.Members) != len(names):
			return moves, fmt.Errorf("%s sees %v up among the members %v: want %v", name, up, v.Members, names)
		case !v.Converged:
			return moves, fmt.Errorf("%s: the members do not agree: %s", name, v.Why)
		}
		for _, s := range n.RegionState("") {
			if s.State != "active" && s.State != "forwarding" {
				return moves, fmt.Errorf("%s: shard %d of %s is %s", name, s.Shard, s.Kind, s.State)
			}
		}
	}
	return moves, nil
}
