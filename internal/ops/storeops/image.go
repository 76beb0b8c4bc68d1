package storeops

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// An Image is the whole content of a shard, as records without a log: entities, ids of applied
// commands, waiting tells and the journal.
type Image struct {
	Head    []byte // nil: the shard was never used
	Records []store.Change
}

// Entities returns the number of entities in the image, or in a part of it, that have not
// expired by this machine's clock.
func (i Image) Entities() int {
	found := contents{head: store.Head{Revision: store.None + 1, Value: i.Head}, now: time.Now()}
	for _, r := range i.Records {
		found.records = append(found.records, store.Record{Key: r.ID, Value: r.Value})
	}
	return len(found.snap().Entities)
}

// imageOf returns the image of a shard. It opens a copy of the shard in memory and closes it again,
// because closing writes the whole log to records. now is the time of the shard's store.
func imageOf(ctx context.Context, shard store.Shard, now time.Time, head store.Head, log []store.Append, records []store.Record) (Image, error) {
	if head.Revision == store.None {
		return Image{}, nil
	}
	epoch, _, err := durable.HeadBy(head)
	if err != nil {
		return Image{}, err
	}
	server := memory.New()
	server.SetAhead(time.Until(now)) // what has expired is not copied
	back := server.Client()
	s := back.Shards()
	value, err := durable.Unanchored(head.Value)
	if err != nil {
		return Image{}, err
	}
	copied := store.Head{Value: value}
	for i, a := range log {
		p, err := s.Append(ctx, shard, store.Any, a.Data)
		if err != nil {
			return Image{}, err
		}
		if i == 0 {
			copied.Since = p
		}
	}
	revision, err := s.SetHead(ctx, shard, copied)
	if err != nil {
		return Image{}, err
	}
	changes := make([]store.Change, 0, len(records))
	for _, r := range records {
		changes = append(changes, store.Change{ID: r.Key, Value: r.Value})
	}
	if err := putAll(ctx, s, shard, revision, changes); err != nil {
		return Image{}, err
	}
	if err := rest(ctx, back, shard, uint64(durablehost.Term(epoch)+1)<<32|1); err != nil {
		return Image{}, err
	}
	rested, err := s.Head(ctx, shard)
	if err != nil {
		return Image{}, err
	}
	image := Image{Head: rested.Value}
	for after := store.None; ; {
		page, err := s.List(ctx, shard, after)
		if err != nil || len(page) == 0 {
			return image, err
		}
		for _, r := range page {
			image.Records = append(image.Records, store.Change{ID: r.Key, Value: r.Value})
			after = r.Revision
		}
	}
}

// rest opens and closes a shard, so that its whole log is written to records.
func rest(ctx context.Context, s store.Backend, shard store.Shard, placed uint64) error {
	clock, err := clockOf(ctx, s)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer wg.Wait()
	defer stop()
	host := &durablehost.Process{
		Store: s, Ctx: ctx, Spawn: wg.Go, Log: slog.New(slog.DiscardHandler),
		Send:    func(context.Context, store.Shard, []durable.Tell, func([]durable.Tell, bool)) {},
		GivenUp: func(store.Shard, durable.Tell) {},
	}
	sh := durablehost.New(durablehost.Config{
		Shard: shard, Store: s.Shards(), Node: writerName, Incarnation: rand.Uint64(), Host: host, Clock: clock, Journal: durable.Journal{On: true},
	})
	defer sh.Close()
	sh.Open(placed)
	tenure, err := sh.Tenure(ctx)
	if err != nil {
		return err
	}
	if err := sh.Leave(ctx, placed); err != nil {
		return err
	}
	if !tenure.Rested() {
		return fmt.Errorf("shard %v: its copy in memory ended before its whole log was written to records (repeat the command; if it fails again, shardctl store verify %s says what is damaged)", shard, shard.Type)
	}
	return nil
}

// putAll writes records in batches of at most store.MaxGet records and about store.ListBytes.
func putAll(ctx context.Context, s store.Shards, shard store.Shard, head store.Revision, changes []store.Change) error {
	for len(changes) > 0 {
		n, bytes := 0, 0
		for n < len(changes) && n < store.MaxGet && (n == 0 || bytes+len(changes[n].Value) < store.ListBytes) {
			bytes += len(changes[n].Value)
			n++
		}
		if _, err := s.Put(ctx, shard, head, changes[:n]); err != nil {
			return fmt.Errorf("shard %v: %w", shard, err)
		}
		changes = changes[n:]
	}
	return nil
}

func dropAll(ctx context.Context, s store.Shards, shard store.Shard, head store.Revision) error {
	var gone []store.Change
	for after := store.None; ; {
		page, err := s.List(ctx, shard, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return putAll(ctx, s, shard, head, gone)
		}
		for _, r := range page {
			gone = append(gone, store.Change{ID: r.Key})
			after = r.Revision
		}
	}
}
