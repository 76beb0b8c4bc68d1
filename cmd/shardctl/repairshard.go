package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// repairShard replaces all that a shard has by its image in an export, or by its readable parts.
func repairShard(ctx context.Context, s *natsstore.Store, t durablehost.Type, o *storeOptions, w io.Writer) error {
	if first, end := storeops.ShardsOf(t); o.shard < first || o.shard >= end {
		return fmt.Errorf("%s has no shard %d: want %d to %d", o.kind, o.shard, first, end-1)
	}
	shard := store.Shard{Type: o.kind, Number: o.shard}
	image, err := storeops.Image{}, error(nil)
	if o.drop {
		image, err = dropDamage(ctx, s, shard, w)
	} else {
		image, err = imageIn(o.from, t, shard)
	}
	if err != nil {
		return err
	}
	writer, err := storeops.NewWriter(ctx, s, o.kind, t)
	if err != nil {
		return err
	}
	if err := errors.Join(writer.ReplaceShard(ctx, o.shard, image), writer.Close(ctx)); err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	if _, err = fmt.Fprintf(w, "shard %v: replaced, with %d records\n", shard, len(image.Records)); err != nil {
		return err
	}
	return printLost(ctx, s, shard, w)
}

// dropDamage returns the image of a shard without its damaged parts, and prints those.
func dropDamage(ctx context.Context, s *natsstore.Store, shard store.Shard, w io.Writer) (storeops.Image, error) {
	snap, image, err := storeops.ReadAll(ctx, s, shard)
	switch {
	case err != nil:
		return image, err
	case len(snap.Problems) == 0:
		return image, fmt.Errorf("shard %v: everything can be decoded", shard)
	case image.Head == nil:
		return image, fmt.Errorf("shard %v: what can be decoded is not enough for a shard (-from replaces it by an export)", shard)
	}
	for _, p := range snap.Problems {
		if _, err := fmt.Fprintf(w, "shard %v: dropped: %s: %v\n", shard, p.Place, p.Err); err != nil {
			return image, err
		}
	}
	return image, nil
}

// imageIn returns the image of a shard in an export.
func imageIn(path string, t durablehost.Type, shard store.Shard) (image storeops.Image, err error) {
	file, err := os.Open(path)
	if err != nil {
		return image, err
	}
	defer func() { _ = file.Close() }() // it was only read
	whole := false
	err = readLines(file, func(l line) error {
		switch {
		case l.Type != shard.Type:
		case l.ID == nil && l.Image == nil && (l.Shards != t.Shards || l.Hash != t.Hash || l.Cluster != t.Cluster):
			return fmt.Errorf("it is of %d shards by %s in cluster %s, and the store has %d by %s in %s", l.Shards, l.Hash, l.Cluster, t.Shards, t.Hash, t.Cluster)
		case l.Image != nil && l.Shard == shard.Number:
			if whole { // several exports in one file: the last counts
				image.Records = nil
			}
			image.Head = l.Image.Head
			for _, r := range l.Image.Records {
				image.Records = append(image.Records, store.Change{ID: string(r.Key), Value: r.Value})
			}
			whole = l.Image.Last
		}
		return nil
	})
	if err == nil && !whole {
		err = fmt.Errorf("no image of shard %v (an export of the whole type has it, unless the shard was never used or was damaged)", shard)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return image, err
}
