package shardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

const (
	patience = 10 * time.Minute // bounds each wait
	look     = 10 * time.Millisecond
	calm     = time.Second // for which nothing has moved in a settled cluster
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

// settled returns why the cluster has not settled, and how many moves there were.
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
			return moves, fmt.Errorf("at %s %v are up, of members %v: want %v", name, up, v.Members, names)
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

// locate asks the nodes in order until one knows.
func locate(c *Cluster, kind, id string) (at shard.Location, err error) {
	err = errors.New("no node runs")
	for _, name := range c.Running() {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		at, err = c.process(name).node.Locate(ctx, kind, id)
		cancel()
		if err == nil {
			return at, nil
		}
	}
	return at, err
}

// home returns where an entity lives: the node that has its shard or, if there is none or are
// several of them, the one that the table of the first node names.
func home(c *Cluster, kind, id string) (string, error) {
	at, err := locate(c, kind, id)
	if err != nil {
		return "", err
	}
	var have []string
	names := c.Running()
	for _, name := range names {
		if slices.ContainsFunc(c.process(name).node.RegionState(kind), func(s shard.ShardState) bool {
			return s.Shard == at.Shard && s.State == "active"
		}) {
			have = append(have, name)
		}
	}
	switch {
	case len(have) == 1:
		return have[0], nil
	case at.Node == "":
		return "", fmt.Errorf("none: %s", at.Why)
	case !slices.Contains(names, at.Node):
		return "", fmt.Errorf("%s has ended", at.Node)
	}
	return at.Node, nil
}
