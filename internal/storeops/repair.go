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

// ReplaceShard puts an image in the place of all that a shard has, also if that cannot be decoded. An append
// ends the log before it, so that nothing of it counts any more. One that fails leaves a shard
// that does not open: repeat it.
func (w *Writer) ReplaceShard(ctx context.Context, number int, image Image) error {
	shard, s := store.Shard{Type: w.kind, Number: number}, w.store.Shards()
	head, err := s.Head(ctx, shard)
	if err != nil {
		return err
	}
	epoch, err := durablehost.StoreEpoch(w.placed(), 0)
	if err != nil {
		return err
	}
	if now, _, err := durable.HeadBy(head); err == nil && now >= epoch {
		return fmt.Errorf("shard %v has epoch %d, and %d was to follow it (try again)", shard, now, epoch)
	}
	if image.Head == nil {
		image.Head = durable.FreshHead(writerName, w.incarnation, epoch, nil)
	}
	fence := head.Revision
	set := func(since store.Position, whole bool) error {
		next, err := durable.RestoredHead(image.Head, writerName, w.incarnation, epoch, whole)
		if err != nil {
			return err
		}
		next.Revision, next.Since = fence, since
		fence, err = s.SetHead(ctx, shard, next)
		return err
	}
	if err := set(head.Since, false); err != nil {
		return err
	}
	claimed, err := s.Append(ctx, shard, store.Any, durable.ClaimAppend(writerName, w.incarnation, epoch))
	if err != nil {
		return err
	}
	var gone []store.Change
	for after := store.None; ; {
		page, err := s.List(ctx, shard, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			gone = append(gone, store.Change{ID: r.Key})
			after = r.Revision
		}
	}
	err = errors.Join(putAll(ctx, s, shard, fence, gone), putAll(ctx, s, shard, fence, image.Records))
	if err != nil {
		return err
	}
	return set(claimed, true)
}
