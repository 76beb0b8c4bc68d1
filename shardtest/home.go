package shardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// locate asks the nodes in order until one knows where the entity lives.
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

// home returns the node at which the entity's shard is active. If no node or several have it, home
// returns the home in the table of the first node that answers.
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
		return "", fmt.Errorf("%s/%s has no home: %s", kind, id, at.Why)
	case !slices.Contains(names, at.Node):
		return "", fmt.Errorf("its home %s does not run", at.Node)
	}
	return at.Node, nil
}
