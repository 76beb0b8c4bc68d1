package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/store"
)

// printLost prints the named followers that have read further in a shard than its journal goes now, or other events.
// They are left as they are, since only their owners can build anew what was made of lost events.
func printLost(ctx context.Context, s store.Backend, shard store.Shard, w io.Writer) error {
	lost, err := durablehost.LostFollowers(ctx, s, shard)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if err == nil {
			_, err = fmt.Fprintf(w, "shard %v: follower %s: %v\n", shard, name, lost[name])
		}
	}
	return err
}
