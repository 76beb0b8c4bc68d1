package storeops

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/store"
)

// Salvage returns the image of all that can be decoded in a shard, and what it lacks. These commits are
// lost: commits in undecodable appends, commits lost by the store, and later commits of their entities by
// events alone. Their entities have the state from before.
func Salvage(ctx context.Context, s Store, shard store.Shard) (image Image, lacks []durable.Problem, err error) {
	err = readShard(ctx, s, shard, func(found contents) error {
		lacks = found.decode().Problems
		head, records := found.head, found.records
		damaged, keys := make(map[string]bool), make(map[string]bool)
		for _, p := range lacks {
			damaged[p.Entity], keys[durable.EntityKey(p.Entity)] = p.Entity != "", p.Entity != ""
		}
		records = slices.DeleteFunc(records, func(r store.Record) bool {
			alone := durable.Snap(found.head, nil, []store.Record{r}, nil)
			return keys[r.Key] && slices.ContainsFunc(alone.Problems, func(p durable.Problem) bool { return p.Entity != "" })
		})
		log := durable.Without(durable.Readable(found.log), damaged)
		without := func(prefix string) {
			records = slices.DeleteFunc(records, func(r store.Record) bool { return strings.HasPrefix(r.Key, prefix) })
		}
		try := func() error {
			log, records, err := mendJournal(log, records)
			if err == nil {
				image, err = imageOf(ctx, shard, head, log, records)
			}
			return err
		}
		if head.Revision == store.None && len(log) > 0 {
			err = errors.New("the head is missing")
		} else if err = try(); err == nil {
			return nil
		}
		// Without the head or the table no ids of commands and no tells are known but those in the log.
		lacks = append(lacks, durable.Problem{Place: "ids of commands and waiting tells that are in records", Err: err})
		head.Value, head.Revision = durable.FreshHead(writerName, rand.Uint64(), 1, log), max(head.Revision, store.None+1)
		without("t")
		if err = try(); err == nil {
			return nil
		}
		lacks = append(lacks, durable.Problem{Place: "the journal", Err: err})
		without("j")
		return try()
	})
	return image, lacks, err
}

// mendJournal returns a log and records without a gap in the events of both.
func mendJournal(log []store.Append, records []store.Record) ([]store.Append, []store.Record, error) {
	log, records, err := durable.MendJournal(log, records)
	if err == nil {
		log, err = durable.Renumbered(log, records)
	}
	return log, records, err
}

// CheckRepair fails if the shard of an entity cannot be opened when the entity's damaged record is deleted.
func CheckRepair(ctx context.Context, s Store, shard store.Shard, id string) error {
	return readShard(ctx, s, shard, func(found contents) error {
		for _, p := range found.decode().Problems {
			if !p.Blocks {
				continue
			}
			if p.Entity == id {
				return fmt.Errorf("shard %v: its log has events that follow the record of entity %q (shardctl store repair %s -shard %d mends the shard first): %w", shard, id, shard.Type, shard.Number, p.Err)
			}
			return fmt.Errorf("shard %v: %s: %w (shardctl store repair %s -shard %d mends the shard first)", shard, p.Place, p.Err, shard.Type, shard.Number)
		}
		return nil
	})
}

// DropRecord deletes the undecodable record of an entity, so that the entity can be written again.
// What the shard's log has of the entity stays.
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
	_, err = s.Shards().Put(ctx, shard, revision, []store.Change{{ID: durable.EntityKey(id)}})
	return err
}
