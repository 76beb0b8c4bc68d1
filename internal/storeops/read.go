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

// TypeOf reads the record of a type's properties that must not change. It fails with
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

// ShardsOf returns the range of the numbers of a type's shards, of which end is not one. Those of n
// shards begin with n.
func ShardsOf(t durablehost.Type) (first, end int) { return int(t.Shards), 2 * int(t.Shards) }

// readTries is how often a shard is read if its log is trimmed during each read.
const readTries = 5

// ReadShard reads one shard. Entities that have expired are left out.
func ReadShard(ctx context.Context, s Store, shard store.Shard) (snap durable.Snapshot, err error) {
	err = readShard(ctx, s, shard, func(head store.Head, log []store.Append, records []store.Record) error {
		snap = snapOf(head, log, records)
		return nil
	})
	return snap, err
}

func snapOf(head store.Head, log []store.Append, records []store.Record) durable.Snapshot {
	snap := durable.Snap(head, log, records)
	now := time.Now().UnixMilli()
	snap.Entities = slices.DeleteFunc(snap.Entities, func(k durable.Kept) bool { return k.Expires != 0 && k.Expires <= now })
	return snap
}

// ReadAll is ReadShard, and also returns everything else in the shard. If the image has no head and err
// is nil, the shard was never used, or has the problems that the snapshot lists.
func ReadAll(ctx context.Context, s Store, shard store.Shard) (snap durable.Snapshot, image Image, err error) {
	err = readShard(ctx, s, shard, func(head store.Head, log []store.Append, records []store.Record) error {
		snap = snapOf(head, log, records)
		damaged := make(map[string]bool)
		for _, p := range snap.Problems {
			damaged[durable.EntityKey(p.Entity)] = true
		}
		records = slices.DeleteFunc(records, func(r store.Record) bool { return damaged[r.Key] })
		if image, err = imageOf(ctx, shard, head, log, records); err == nil || len(snap.Problems) > 0 {
			return nil
		}
		if now, again := s.Shards().Head(ctx, shard); again == nil && now.Revision != head.Revision {
			return fmt.Errorf("shard %v: %w: a checkpoint was written meanwhile (repeat the command, or stop the nodes)", shard, store.ErrGone)
		}
		return fmt.Errorf("shard %v: %w", shard, err)
	})
	return snap, image, err
}

func readShard(ctx context.Context, s Store, shard store.Shard, do func(store.Head, []store.Append, []store.Record) error) error {
	for n := 1; ; n++ {
		head, log, records, err := read(ctx, s, shard)
		if err == nil {
			err = do(head, log, records)
		}
		if err == nil || n == readTries || !errors.Is(err, store.ErrGone) {
			return err
		}
	}
}

// read reads a shard's head, its log from there, and then its records.
func read(ctx context.Context, s Store, shard store.Shard) (head store.Head, log []store.Append, records []store.Record, err error) {
	if head, err = s.Shards().Head(ctx, shard); err != nil {
		return head, nil, nil, err
	}
	last, err := s.Last(ctx, shard)
	if err != nil {
		return head, nil, nil, err
	}
	if last != store.Start {
		if log, err = s.Shards().Read(ctx, shard, head.Since, last); err != nil {
			return head, nil, nil, err
		}
	}
	if head.Revision == store.None {
		return head, log, nil, nil // records are written under a head
	}
	at := make(map[string]int)
	for after := store.None; ; {
		page, err := s.Shards().List(ctx, shard, after)
		if err != nil || len(page) == 0 {
			return head, log, records, err
		}
		for _, r := range page {
			if i, there := at[r.Key]; there { // it was written meanwhile
				records[i] = r
				continue
			}
			at[r.Key] = len(records)
			records = append(records, r)
		}
		after = page[len(page)-1].Revision
	}
}
