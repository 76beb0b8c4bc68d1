package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// each calls do with the content of each shard of a type.
func each(ctx context.Context, s *natsstore.Store, kind string, t durablehost.Type, do func(shard store.Shard, snap durable.Snapshot) error) error {
	first, end := storeops.ShardsOf(t)
	for n := first; n < end; n++ {
		shard := store.Shard{Type: kind, Number: n}
		snap, err := storeops.ReadShard(ctx, s, shard)
		if err == nil {
			err = do(shard, snap)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachAll is each with the images of the shards, too.
func eachAll(ctx context.Context, s *natsstore.Store, kind string, t durablehost.Type, do func(store.Shard, durable.Snapshot, storeops.Image) error) error {
	first, end := storeops.ShardsOf(t)
	for n := first; n < end; n++ {
		shard := store.Shard{Type: kind, Number: n}
		snap, whole, err := storeops.ReadAll(ctx, s, shard)
		if err == nil {
			err = do(shard, snap, whole)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// typesOf are the types to which a command applies: all if it names none.
func typesOf(ctx context.Context, s *natsstore.Store, o *storeOptions) ([]natsstore.Type, error) {
	types, err := s.Types(ctx)
	if err != nil || o.kind == "" {
		return types, err
	}
	i := slices.IndexFunc(types, func(t natsstore.Type) bool { return t.Name == o.kind })
	if i < 0 {
		var names []string
		for _, t := range types {
			names = append(names, t.Name)
		}
		return nil, fmt.Errorf("type %s is not in the store %s, which has %s", o.kind, o.store, cmp.Or(strings.Join(names, ", "), "no types"))
	}
	return types[i : i+1], nil
}
