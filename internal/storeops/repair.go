package storeops

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// Salvage returns the image of all that can be decoded in a shard, and what it lacks. Commits in
// appends that cannot be decoded are lost: their entities have the state from before.
func Salvage(ctx context.Context, s Store, shard store.Shard) (image Image, lacks []durable.Problem, err error) {
	err = readShard(ctx, s, shard, func(head store.Head, log []store.Append, records []store.Record) error {
		lacks = durable.Snap(head, log, records).Problems
		damaged := make(map[string]bool)
		for _, p := range lacks {
			damaged[durable.EntityKey(p.Entity)] = p.Entity != ""
		}
		records = slices.DeleteFunc(records, func(r store.Record) bool { return damaged[r.Key] })
		log = durable.Readable(log)
		if image, err = imageOf(ctx, shard, head, log, records); err == nil {
			return nil
		}
		// The head or the table is damaged: without them no ids of commands and no tells are known but
		// those in the log.
		lacks = append(lacks, durable.Problem{Place: "ids of commands and waiting tells that are in records", Err: err})
		without := func(prefix string) {
			records = slices.DeleteFunc(records, func(r store.Record) bool { return strings.HasPrefix(r.Key, prefix) })
		}
		head.Value = durable.FreshHead(writerName, rand.Uint64(), 1, log)
		without("t")
		if image, err = imageOf(ctx, shard, head, log, records); err == nil {
			return nil
		}
		lacks = append(lacks, durable.Problem{Place: "the journal", Err: err})
		without("j")
		image, err = imageOf(ctx, shard, head, log, records)
		return err
	})
	return image, lacks, err
}
