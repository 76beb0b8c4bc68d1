package storeops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
)

// CheckRepair fails if the entity's shard could not be opened after deleting the entity's damaged
// record.
func CheckRepair(ctx context.Context, s Store, shard store.Shard, id string) error {
	return readShard(ctx, s, shard, func(found contents) error {
		for _, p := range found.decode().Problems {
			if !p.Blocks {
				continue
			}
			if p.Entity == id {
				return fmt.Errorf("shard %v: its log has events that follow the record of entity %q (repair the shard first: shardctl store repair %s -shard %d): %w", shard, id, shard.Type, shard.Number, p.Err)
			}
			return fmt.Errorf("shard %v: %s: %w (repair the shard first: shardctl store repair %s -shard %d)", shard, p.Place, p.Err, shard.Type, shard.Number)
		}
		return nil
	})
}

// DropRecord deletes the damaged record of an entity, so that the entity can be written again. The
// entity's entries in the shard's log stay.
func DropRecord(ctx context.Context, s Store, cluster string, shard store.Shard, id string) error {
	term, _, err := durablehost.NextTerm(ctx, s, cluster, 1)
	if err != nil {
		return err
	}
	epoch, err := durablehost.StoreEpoch(uint64(term)<<32|1, 0)
	if err != nil {
		return err
	}
	head, err := s.Shards().Head(ctx, shard)
	if err != nil {
		return err
	}
	if head, err = durable.TakeHead(head, writerName, rand.Uint64(), epoch); err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	revision, err := s.Shards().SetHead(ctx, shard, head)
	if err != nil {
		return err
	}
	changes := []store.Change{{ID: durable.EntityKey(id)}}
	for after := store.None; ; {
		page, err := s.Shards().List(ctx, shard, after)
		if err != nil {
			return err
		}
		for _, r := range page {
			if after = r.Revision; durable.IsLeaf(r.Key) { // the next home writes a catalog without the id
				changes = append(changes, store.Change{ID: r.Key})
			}
		}
		if len(page) == 0 {
			break
		}
	}
	for part := range slices.Chunk(changes, store.MaxGet) {
		if _, err := s.Shards().Put(ctx, shard, revision, part); err != nil {
			return err
		}
	}
	return nil
}
