package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// exportFormat is the format of exported files. Import reads everything up to it.
const exportFormat = 2

// A line is one of an export: a type, a part of the image of one of its shards, or an entity of the
// type before it.
type line struct {
	Format  int    `json:"format,omitempty"` // of a type's line
	Type    string `json:"type"`
	Cluster string `json:"cluster,omitempty"`
	Shards  uint32 `json:"shards,omitempty"`
	Hash    string `json:"hash,omitempty"`

	ID      *string `json:"id,omitempty"` // of an entity's line; in base64 if Binary
	Binary  bool    `json:"binary,omitempty"`
	Shard   int     `json:"shard,omitempty"`
	Version uint64  `json:"version,omitempty"`
	State   []byte  `json:"state,omitempty"`
	// Since are events that are to be applied to State. They are in the image too, which alone can
	// be imported then.
	Since [][]byte `json:"since,omitempty"`

	StateVersion uint32 `json:"stateVersion,omitempty"` // by the type's directive; absent: 1

	Expires time.Time `json:"expires,omitzero"` // unless it commits again before; absent: never

	Term      uint32            `json:"term,omitempty"`      // of a type's line: the coordinator's last
	Followers map[string][]byte `json:"followers,omitempty"` // of a type's line: how far they have read
	Image     *image            `json:"image,omitempty"`
}

// events is the error of a line that cannot be written by itself.
func (l line) events() error {
	return fmt.Errorf("%s/%s: %d events follow its state, which only the image of its shard restores (delete the type and import the whole export)", l.Type, *l.ID, len(l.Since))
}

// An image is a part of a shard's data in the store's own form: entities, ids of commands,
// waiting tells and the journal. The lines of the shard's entities follow. Import -states writes
// those to a shard that was used since, because an image cannot be written there.
type image struct {
	Head    []byte        `json:"head"`
	Records []imageRecord `json:"records,omitempty"`
	Last    bool          `json:"last,omitempty"` // of the shard's parts
}

type imageRecord struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// imageBytes bounds the records in a line.
const imageBytes = 1 << 20

// imageLines writes an image.
func imageLines(to *json.Encoder, kind string, shard int, whole storeops.Image) error {
	for records := whole.Records; whole.Head != nil; {
		part, bytes := image{Head: whole.Head}, 0
		for len(records) > 0 && bytes < imageBytes {
			part.Records = append(part.Records, imageRecord{[]byte(records[0].ID), records[0].Value})
			bytes += len(records[0].Value)
			records = records[1:]
		}
		part.Last = len(records) == 0
		if err := to.Encode(line{Type: kind, Shard: shard, Image: &part}); err != nil || part.Last {
			return err
		}
	}
	return nil
}

// expiry is the line's Expires as the store has it.
func (l line) expiry() int64 {
	if l.Expires.IsZero() {
		return 0
	}
	return l.Expires.UnixMilli()
}

// expiresAt is the time of an expiry in the store; zero means never.
func expiresAt(expires int64) time.Time {
	if expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(expires).UTC()
}

// lineOf is an entity's line. JSON has no strings that are not UTF-8.
func lineOf(kind string, shard int, k durable.Kept) line {
	id, binary := textOf(k.ID)
	return line{Type: kind, ID: &id, Binary: binary, Shard: shard, Version: k.Version, State: k.State, Since: k.Since, StateVersion: k.Form, Expires: expiresAt(k.Expires)}
}

// each reads shard after shard of a type.
func each(ctx context.Context, s *natsstore.Store, kind string, t durablehost.Type, do func(shard store.Shard, snap durable.Snapshot) error) error {
	first, end := storeops.ShardsOf(t)
	for n := first; n < end; n++ {
		shard := store.Shard{Type: kind, Number: n}
		snap, err := storeops.ReadShard(ctx, s, shard)
		if err == nil {
			err = do(shard, snap)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachAll is each with everything in the shards.
func eachAll(ctx context.Context, s *natsstore.Store, kind string, t durablehost.Type, do func(store.Shard, durable.Snapshot, storeops.Image) error) error {
	first, end := storeops.ShardsOf(t)
	for n := first; n < end; n++ {
		shard := store.Shard{Type: kind, Number: n}
		snap, whole, err := storeops.ReadAll(ctx, s, shard)
		if err == nil {
			err = do(shard, snap, whole)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A storeProblem is a problem as verify prints it.
type storeProblem struct {
	Shard string `json:"shard"`
	Place string `json:"place"`
	Error string `json:"error"`
}

func storeVerify(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	shards, entities := 0, 0
	problems := []storeProblem{}
	for _, found := range types {
		t, err := storeops.TypeOf(ctx, s, found.Name)
		if err != nil {
			return err
		}
		err = each(ctx, s, found.Name, t, func(shard store.Shard, snap durable.Snapshot) error {
			shards++
			entities += len(snap.Entities)
			for _, p := range snap.Problems {
				problems = append(problems, storeProblem{shard.String(), p.Place, p.Err.Error()})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if o.json {
		err = printJSON(w, problems)
	} else {
		for _, p := range problems {
			fmt.Fprintf(w, "shard %s: %s: %s\n", p.Shard, p.Place, p.Error)
		}
		_, err = fmt.Fprintf(w, "%d types, %d shards, %d entities can be read\n", len(types), shards, entities)
	}
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%d heads, appends or records cannot be decoded (shardctl store repair mends a record by its entity, the rest by -shard)", len(problems))
	}
	return err
}

// A sought is where an entity is.
type sought struct {
	shard   store.Shard // of no type: it is nowhere
	kept    durable.Kept
	problem error // why its record cannot be decoded
	bytes   []byte
}

// find looks for one entity in all shards.
func find(ctx context.Context, s *natsstore.Store, t durablehost.Type, o *storeOptions) (found sought, err error) {
	err = each(ctx, s, o.kind, t, func(shard store.Shard, snap durable.Snapshot) error {
		for _, p := range snap.Problems {
			if p.Entity == o.id && o.id != "" {
				found = sought{shard: shard, problem: p.Err, bytes: p.Bytes}
			}
		}
		for _, k := range snap.Entities {
			if k.ID == o.id {
				found = sought{shard: shard, kept: k}
			}
		}
		return nil
	})
	return found, err
}

func storeShow(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	if _, err := typesOf(ctx, s, o); err != nil {
		return err
	}
	t, err := storeops.TypeOf(ctx, s, o.kind)
	if err != nil {
		return err
	}
	found, err := find(ctx, s, t, o)
	switch {
	case err != nil:
		return err
	case found.shard.Type == "":
		return fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	case found.problem != nil:
		_, err := fmt.Fprintf(w, "%s/%s in shard %d, unreadable, %d bytes: %x\n", o.kind, o.id, found.shard.Number, len(found.bytes), found.bytes)
		return errors.Join(err, fmt.Errorf("%s/%s in shard %v: %w (shardctl store repair replaces or drops it)", o.kind, o.id, found.shard, found.problem))
	case o.json:
		return printJSON(w, lineOf(o.kind, found.shard.Number, found.kept))
	}
	expires := ""
	if at := expiresAt(found.kept.Expires); !at.IsZero() {
		expires = ", expires at " + at.Format(time.RFC3339)
	}
	if found.kept.Form > 1 {
		expires = fmt.Sprintf(", of state version %d%s", found.kept.Form, expires)
	}
	if n := len(found.kept.Since); n > 0 {
		expires = fmt.Sprintf("%s, %d events behind the state", expires, n)
	}
	_, err = fmt.Fprintf(w, "%s/%s in shard %d, version %d%s, %d bytes: %x\n",
		o.kind, o.id, found.shard.Number, found.kept.Version, expires, len(found.kept.State), found.kept.State)
	return err
}

func storeExport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) (err error) {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	if o.out != "" {
		file, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	buffered := bufio.NewWriter(w)
	entities, unreadable := 0, 0
	lines := json.NewEncoder(buffered)
	for _, found := range types {
		t, err := storeops.TypeOf(ctx, s, found.Name)
		if err != nil {
			return err
		}
		head := line{Format: exportFormat, Type: found.Name, Cluster: t.Cluster, Shards: t.Shards, Hash: t.Hash}
		if head.Term, err = durablehost.LastTerm(ctx, s, t.Cluster); err == nil {
			head.Followers, err = durablehost.FollowersOf(ctx, s, found.Name)
		}
		if err == nil {
			err = lines.Encode(head)
		}
		if err != nil {
			return err
		}
		err = eachAll(ctx, s, found.Name, t, func(shard store.Shard, snap durable.Snapshot, whole storeops.Image) error {
			if o.id == "" {
				if err := imageLines(lines, found.Name, shard.Number, whole); err != nil {
					return err
				}
			}
			for _, p := range snap.Problems {
				if o.id == "" || p.Entity == o.id {
					unreadable++
				}
			}
			for _, k := range snap.Entities {
				if o.id != "" && k.ID != o.id {
					continue
				}
				entities++
				if err := lines.Encode(lineOf(found.Name, shard.Number, k)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch err := buffered.Flush(); {
	case err != nil:
		return err
	case unreadable > 0:
		return fmt.Errorf("%d heads, appends or records cannot be decoded: the export lacks them (shardctl store verify names them)", unreadable)
	case o.id != "" && entities == 0:
		return fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	}
	return nil
}

// readLines reads an export.
func readLines(r io.Reader, do func(line) error) error {
	lines := json.NewDecoder(r)
	lines.DisallowUnknownFields()
	for n := 1; ; n++ {
		var l line
		err := lines.Decode(&l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && l.Format > exportFormat {
			err = fmt.Errorf("format %d, this program reads up to %d (use a newer shardctl)", l.Format, exportFormat)
		}
		if err == nil && l.ID != nil {
			*l.ID, err = idOf(*l.ID, l.Binary)
		}
		if err == nil {
			err = do(l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// findEntity finds the line of one entity.
func findEntity(r io.Reader, kind, id string) (e storeops.Entity, err error) {
	found := false
	err = readLines(r, func(l line) error {
		if l.ID != nil && l.Type == kind && *l.ID == id && len(l.Since) > 0 {
			return l.events()
		}
		if l.ID != nil && l.Type == kind && *l.ID == id {
			e, found = storeops.Entity{Shard: l.Shard, ID: id, State: l.State, Form: l.StateVersion, Expires: l.expiry()}, true
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no line for %s/%s", kind, id)
	}
	return e, err
}

func storeImport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	file, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	im := importer{store: s, options: o}
	err = readLines(file, func(l line) error { return im.line(ctx, l) })
	if err := errors.Join(err, im.close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", o.from, err)
	}
	_, err = fmt.Fprintf(w, "%d entities of %d types are in the store\n", im.entities, im.types)
	if err == nil && im.used > 0 {
		_, err = fmt.Fprintf(w, "%d shards were used: of them only states were imported, without ids of commands, tells and journals\n", im.used)
	}
	return err
}

// An importer writes the records of an exported file.
type importer struct {
	store           *natsstore.Store
	options         *storeOptions
	writer          *storeops.Writer // of the type of the last type's line
	kind            string
	first, end      int // of its shards
	types, entities int
	image           int          // the shard of the last image's line
	restored        map[int]bool // shards of the type: false for those that are in use
	used            int          // shards that were in use
}

func (i *importer) line(ctx context.Context, l line) error {
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
	i.entities++
	if i.restored[l.Shard] {
		return nil // its image has it
	}
	if len(l.Since) > 0 {
		return l.events()
	}
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
			return fmt.Errorf("%w: ids of commands, tells and the journal cannot be replaced there (shardctl store delete %s, and import the whole file; or -states to write the states of entities alone)", err, i.kind)
		}
		i.used++
		return nil // the lines of its entities follow
	}
	i.restored[l.Shard] = err == nil
	return err
}

// begin begins a type.
func (i *importer) begin(ctx context.Context, l line) error {
	if err := i.close(ctx); err != nil {
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
		if err := durablehost.RaiseTerm(ctx, i.store, l.Cluster, l.Term); err != nil {
			return err
		}
	}
	writer, err := storeops.NewWriter(ctx, i.store, l.Type, t)
	if err == nil {
		err = durablehost.RestoreFollowers(ctx, i.store, l.Type, l.Followers)
	}
	if err != nil {
		return err
	}
	i.image, i.restored = 0, make(map[int]bool)
	writer.Replace = i.options.replace
	i.writer, i.kind = writer, l.Type
	i.first, i.end = storeops.ShardsOf(t)
	i.types++
	return nil
}

func (i *importer) close(ctx context.Context) error {
	if i.writer == nil {
		return nil
	}
	err := i.writer.Close(ctx)
	i.writer = nil
	return err
}
