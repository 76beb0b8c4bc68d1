package storeops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/store"
)

// A Store is a store that can be read without a claim.
type Store interface {
	store.Backend
	// Last is the position of the last append of a shard's log.
	Last(ctx context.Context, shard store.Shard) (store.Position, error)
}

// TypeOf reads the record that says what must not change about a type. It fails with
// store.ErrNotFound if no node has hosted the type with this store.
func TypeOf(ctx context.Context, s store.Store, kind string) (t durablehost.Type, err error) {
	key := durablehost.TypeKey(kind)
	r, err := s.Get(ctx, key)
	if err != nil {
		return t, fmt.Errorf("type %s: %w", kind, err)
	}
	if err := json.Unmarshal(r.Value, &t); err != nil {
		return t, fmt.Errorf("type %s: record %q of the store is damaged: %w (restore it from a backup)", kind, key, err)
	}
	return t, nil
}

// ShardsOf are the numbers of a type's shards: those of n shards begin with n.
func ShardsOf(t durablehost.Type) (first, end int) { return int(t.Shards), 2 * int(t.Shards) }

// readTries is how often a shard is read whose log is trimmed meanwhile.
const readTries = 5

// ReadShard reads one shard. Entities that have expired are left out.
func ReadShard(ctx context.Context, s Store, shard store.Shard) (durable.Snapshot, error) {
	for n := 1; ; n++ {
		snap, err := readShard(ctx, s, shard)
		now := time.Now().UnixMilli()
		snap.Entities = slices.DeleteFunc(snap.Entities, func(k durable.Kept) bool { return k.Expires != 0 && k.Expires <= now })
		if err == nil || n == readTries || !errors.Is(err, store.ErrGone) {
			return snap, err
		}
	}
}

func readShard(ctx context.Context, s Store, shard store.Shard) (durable.Snapshot, error) {
	head, err := s.Shards().Head(ctx, shard)
	if err != nil {
		return durable.Snapshot{}, err
	}
	last, err := s.Last(ctx, shard)
	if err != nil {
		return durable.Snapshot{}, err
	}
	var log []store.Append
	if last != store.Start {
		if log, err = s.Shards().Read(ctx, shard, head.Since, last); err != nil {
			return durable.Snapshot{}, err
		}
	}
	if head.Revision == store.None {
		return durable.Snap(head, log, nil), nil // records are written under a head
	}
	var records []store.Record
	for after := store.None; ; {
		page, err := s.Shards().List(ctx, shard, after)
		if err != nil {
			return durable.Snapshot{}, err
		}
		if len(page) == 0 {
			return durable.Snap(head, log, records), nil
		}
		records = append(records, page...)
		after = page[len(page)-1].Revision
	}
}
