package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func storeImport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	file, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()     // it was only read
	if err = checkLines(file); err == nil { // before anything is written
		if _, err = file.Seek(0, io.SeekStart); err != nil {
			err = fmt.Errorf("it is read twice, so it must be a file: %w", err)
		}
	}
	im := importer{store: s, options: o, out: w, types: make(map[string]bool)}
	if err == nil {
		err = readLines(file, func(l line) error { return im.line(ctx, l) })
	}
	if err := errors.Join(err, im.close(ctx, err == nil)); err != nil {
		return fmt.Errorf("%s: %w", o.from, err)
	}
	_, err = fmt.Fprintf(w, "%d entities of %d types are in the store\n", im.entities, len(im.types))
	if err == nil && im.used > 0 {
		_, err = fmt.Fprintf(w, "%d shards were used: of them only states were imported, without ids of commands, tells and journals\n", im.used)
	}
	return err
}

// An importer writes the records of an exported file.
type importer struct {
	store      *natsstore.Store
	options    *storeOptions
	out        io.Writer
	writer     *storeops.Writer // of the type of the last type's line
	kind       string
	followers  map[string][]byte // of the type
	first, end int               // of its shards
	types      map[string]bool
	entities   int          // that were written
	image      int          // the shard of the last image's line
	restored   map[int]bool // shards of the type: false for those that are in use
	used       int          // shards that were in use
}

func (i *importer) line(ctx context.Context, l line) error {
	if l.End != nil {
		return nil
	}
	if l.ID == nil && l.Image == nil {
		return i.begin(ctx, l)
	}
	if l.ID == nil {
		l.ID = new(string)
	}
	switch {
	case i.writer == nil || l.Type != i.kind:
		return fmt.Errorf("%s/%s: the line of the type must come before", l.Type, *l.ID)
	case l.Shard < i.first || l.Shard >= i.end:
		return fmt.Errorf("%s/%s: shard %d: want %d to %d", l.Type, *l.ID, l.Shard, i.first, i.end-1)
	}
	if l.Image != nil {
		return i.restore(ctx, l)
	}
	if i.restored[l.Shard] {
		return nil // its image has it, and was counted
	}
	if len(l.Since) > 0 {
		return l.events()
	}
	i.entities++
	return i.writer.Write(ctx, storeops.Entity{Shard: l.Shard, ID: *l.ID, State: l.State, Form: l.StateVersion, Expires: l.expiry()})
}

// restore writes a part of a shard's image, unless the shard is in use.
func (i *importer) restore(ctx context.Context, l line) error {
	first := i.image != l.Shard
	i.image = l.Shard
	if !first && !i.restored[l.Shard] {
		return nil
	}
	part := storeops.Image{Head: l.Image.Head}
	for _, r := range l.Image.Records {
		part.Records = append(part.Records, store.Change{ID: string(r.Key), Value: r.Value})
	}
	err := i.writer.Restore(ctx, l.Shard, part, first, l.Image.Last)
	if errors.Is(err, storeops.ErrUsed) {
		if !i.options.states {
			return fmt.Errorf("%w: ids of commands, tells and the journal cannot be replaced there (shardctl store delete %s -force, and import the whole file; -replace if it was imported and not used since; or -states to write the states of entities alone)", err, i.kind)
		}
		i.used++
		i.restored[l.Shard] = false
		return nil // the lines of its entities follow
	}
	i.restored[l.Shard] = err == nil
	i.entities += part.Entities()
	return err
}

// begin begins a type.
func (i *importer) begin(ctx context.Context, l line) error {
	if err := i.close(ctx, true); err != nil {
		return err
	}
	if l.Format == 0 || l.Cluster == "" || l.Shards == 0 {
		return fmt.Errorf("type %q: not the line of a type as export writes it", l.Type)
	}
	t := durablehost.Type{Cluster: l.Cluster, Shards: l.Shards, Hash: l.Hash}
	if err := refuseHosted(ctx, i.options, l.Type, t); err != nil {
		return err
	}
	if l.Term > 0 { // epochs only grow, over a restore too
		if _, err := durablehost.RaiseTerm(ctx, i.store, l.Cluster, l.Term); err != nil {
			return err
		}
	}
	writer, err := storeops.NewWriter(ctx, i.store, l.Type, t)
	if err != nil {
		return err
	}
	i.image, i.restored = 0, make(map[int]bool)
	writer.Replace = i.options.replace
	i.writer, i.kind, i.followers = writer, l.Type, l.Followers
	i.first, i.end = storeops.ShardsOf(t)
	i.types[l.Type] = true
	return nil
}

// close ends a type. Its followers get their positions if all of it was written, and all shards as images: a journal that
// was there before has other events.
func (i *importer) close(ctx context.Context, whole bool) error {
	if i.writer == nil {
		return nil
	}
	err := i.writer.Close(ctx)
	i.writer = nil
	for _, restored := range i.restored { //arch:order-free whole if all are
		whole = whole && restored
	}
	if err == nil && whole && len(i.restored) > 0 {
		err = durablehost.RestoreFollowers(ctx, i.store, i.kind, i.followers)
	}
	for _, number := range slices.Sorted(maps.Keys(i.restored)) {
		if err == nil && i.restored[number] {
			err = printLost(ctx, i.store, store.Shard{Type: i.kind, Number: number}, i.out)
		}
	}
	return err
}
