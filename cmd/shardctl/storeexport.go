package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func storeExport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	e := exporter{store: s, options: o}
	if o.out == "" {
		err = e.export(ctx, types, w)
	} else {
		err = replaceFile(o.out, func(w io.Writer) error { return e.export(ctx, types, w) })
	}
	if err == nil && e.unreadable > 0 {
		err = fmt.Errorf("%d heads, appends or records cannot be decoded: the export lacks them (shardctl store verify names them)", e.unreadable)
	}
	return err
}

// An exporter writes an export.
type exporter struct {
	store      *natsstore.Store
	options    *storeOptions
	lines      *json.Encoder
	counts     counts
	unreadable int
}

func (e *exporter) export(ctx context.Context, types []natsstore.Type, w io.Writer) error {
	buffered := bufio.NewWriter(w)
	e.lines = json.NewEncoder(buffered)
	for _, found := range types {
		if err := e.kind(ctx, found.Name); err != nil {
			return err
		}
	}
	if o := e.options; o.id != "" && e.counts.Entities == 0 && e.unreadable == 0 {
		return fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	}
	return errors.Join(e.lines.Encode(line{End: &e.counts}), buffered.Flush())
}

// kind writes the lines of a type.
func (e *exporter) kind(ctx context.Context, name string) error {
	t, err := storeops.TypeOf(ctx, e.store, name)
	if err != nil {
		return err
	}
	head := line{Format: exportFormat, Type: name, Cluster: t.Cluster, Shards: t.Shards, Hash: t.Hash}
	if head.Term, err = durablehost.LastTerm(ctx, e.store, t.Cluster); err == nil {
		head.Followers, err = durablehost.FollowersOf(ctx, e.store, name)
	}
	if err == nil {
		err = e.lines.Encode(head)
	}
	if err != nil {
		return err
	}
	e.counts.Types++
	return eachAll(ctx, e.store, name, t, e.shard)
}

// shard writes the lines of a shard: its image, unless one entity alone is exported, and its entities.
func (e *exporter) shard(shard store.Shard, snap durable.Snapshot, whole storeops.Image) error {
	id := e.options.id
	if id == "" {
		n, err := imageLines(e.lines, shard.Type, shard.Number, whole)
		if err != nil {
			return err
		}
		e.counts.Images += n
	}
	for _, p := range snap.Problems {
		if id == "" || p.Entity == id {
			e.unreadable++
		}
	}
	for _, k := range snap.Entities {
		if id != "" && k.ID != id {
			continue
		}
		e.counts.Entities++
		if err := e.lines.Encode(lineOf(shard.Type, shard.Number, k)); err != nil {
			return err
		}
	}
	return nil
}
