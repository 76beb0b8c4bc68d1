package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/ops/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// exportFormat is the format of exports. Import also reads all earlier ones.
const exportFormat = 3

// A line of an export is a type, a part of a shard's image, an entity, or the closing line.
type line struct {
	Format  int    `json:"format,omitempty"` // of a type's line
	Type    string `json:"type,omitempty"`   // not of the closing line
	Cluster string `json:"cluster,omitempty"`
	Shards  uint32 `json:"shards,omitempty"`
	Hash    string `json:"hash,omitempty"`

	ID      *string `json:"id,omitempty"` // of an entity's line; in base64 if Binary
	Binary  bool    `json:"binary,omitempty"`
	Shard   int     `json:"shard,omitempty"`
	Version uint64  `json:"version,omitempty"`
	State   []byte  `json:"state,omitempty"`
	// Since are the events that must be applied to State. The image contains them too: if there
	// are any, only the image can be imported.
	Since [][]byte `json:"since,omitempty"`

	StateVersion uint32 `json:"stateVersion,omitempty"` // by the type's directive; absent: 1

	Expires time.Time `json:"expires,omitzero"` // unless it commits again before; absent: never

	Term      uint32            `json:"term,omitempty"`      // of a type's line: the coordinator's last
	Followers map[string][]byte `json:"followers,omitempty"` // of a type's line: how far they have read
	Image     *image            `json:"image,omitempty"`

	End *counts `json:"end,omitempty"` // of the closing line: the lines before it
}

func (l line) events() error {
	return fmt.Errorf("%s/%s: %d events were not yet applied to its state, and only an image of the whole shard can restore events (delete the type and import the whole export)", l.Type, *l.ID, len(l.Since))
}

// An image is a part of a shard in the store's form: entities, ids of commands, waiting tells and
// the journal. The lines of the shard's entities follow it. With -states, import writes these
// entities instead of the image into shards that nodes have used.
type image struct {
	Head    []byte        `json:"head"`
	Records []imageRecord `json:"records,omitempty"`
	Last    bool          `json:"last,omitempty"` // of the shard's parts
}

type imageRecord struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// imageBytes bounds the records of an image line.
const imageBytes = 1 << 20

// imageLines writes a shard's image, and returns the number of lines.
func imageLines(to *json.Encoder, kind string, shard int, whole storeops.Image) (n int, err error) {
	for records := whole.Records; whole.Head != nil; {
		part, bytes := image{Head: whole.Head}, 0
		for len(records) > 0 && bytes < imageBytes {
			part.Records = append(part.Records, imageRecord{[]byte(records[0].ID), records[0].Value})
			bytes += len(records[0].Value)
			records = records[1:]
		}
		part.Last = len(records) == 0
		n++
		if err := to.Encode(line{Type: kind, Shard: shard, Image: &part}); err != nil || part.Last {
			return n, err
		}
	}
	return n, nil
}

func (l line) expiry() int64 {
	if l.Expires.IsZero() {
		return 0
	}
	return l.Expires.UnixMilli()
}

func expiresAt(expires int64) time.Time {
	if expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(expires).UTC()
}

// lineOf returns the line of an entity. An id that is not UTF-8 is in base64, for JSON.
func lineOf(kind string, shard int, k durable.StoredEntity) line {
	id, binary := textOf(k.ID)
	return line{Type: kind, ID: &id, Binary: binary, Shard: shard, Version: k.Version, State: k.State, Since: k.Since, StateVersion: k.Form, Expires: expiresAt(k.Expires)}
}

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

// counts are the numbers of lines of each sort, repeated by the closing line.
type counts struct {
	Types    int `json:"types"`
	Images   int `json:"images"` // parts of images
	Entities int `json:"entities"`
}

func (c counts) String() string {
	return fmt.Sprintf("%d types, %d parts of images and %d entities", c.Types, c.Images, c.Entities)
}

// errCut means that a file is not complete.
var errCut = errors.New("the file is not complete: its closing line is missing (was the export interrupted, or is the file cut off? export again)")

// checkLines fails unless each export in the file is complete: it has a closing line with the right
// numbers, and all parts of images. A shard has one image at most. Files of format 1 have neither
// images nor closing lines.
func checkLines(r io.Reader) error {
	c := lineCheck{images: make(map[string]bool)}
	err := readLines(r, c.line)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", errCut, err)
	case err != nil:
		return err
	case c.open != "":
		return c.unfinished()
	case !c.closed && !c.old:
		return errCut
	}
	return nil
}

type lineCheck struct {
	have   counts          // since the last closing line
	closed bool            // the last line was a closing one
	kind   string          // the last type
	old    bool            // its line was of format 1
	open   string          // the shard of an image of which parts are to follow; "": none
	images map[string]bool // the shards of all images
}

func (c *lineCheck) unfinished() error {
	return fmt.Errorf("the image of shard %s is not complete: parts of it are missing (export again)", c.open)
}

func (c *lineCheck) line(l line) error {
	shard := fmt.Sprintf("%s/%d", l.Type, l.Shard)
	if c.open != "" && (l.Image == nil || shard != c.open) {
		return c.unfinished()
	}
	switch {
	case (l.Image != nil || l.ID != nil) && l.Type != c.kind:
		return fmt.Errorf("shard %s: the line of its type must come first", shard)
	case l.Image != nil && c.open == "" && c.images[shard]:
		return fmt.Errorf("the file has a second image of shard %s (import each export from its own file)", shard)
	}
	c.closed = l.End != nil
	switch {
	case l.End != nil && *l.End != c.have:
		return fmt.Errorf("the closing line counts %v, but the file has %v (export again; if you deleted lines, correct its numbers)", *l.End, c.have)
	case l.End != nil:
		c.have = counts{}
	case l.Image != nil:
		c.have.Images++
		c.images[shard] = true
		if c.open = shard; l.Image.Last {
			c.open = ""
		}
	case l.ID != nil:
		c.have.Entities++
	default:
		c.have.Types++
		c.kind = l.Type
		c.old = l.Format == 1
	}
	return nil
}

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

func storeImport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	file, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()     // it was only read
	if err = checkLines(file); err == nil { // before anything is written
		if _, err = file.Seek(0, io.SeekStart); err != nil {
			err = fmt.Errorf("import reads the file twice, so it must be a regular file: %w", err)
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
	if err != nil {
		return err
	}
	return warnOfFeeds(ctx, s, w)
}

// warnOfFeeds prints what to do with each feed: its position is not part of an export.
func warnOfFeeds(ctx context.Context, s *natsstore.Store, w io.Writer) error {
	all, err := feeds.Partitions(ctx, s, "")
	last := ""
	for _, p := range all { // in the order of their names
		if p.Feed == last {
			continue
		}
		last = p.Feed
		if _, err := fmt.Fprintf(w, "feed %s: if it tells entities of these types, run shardctl rewind %[1]s -to 1 before a member starts, so that they get the messages after the export\n", p.Feed); err != nil {
			return err
		}
	}
	return err
}

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
		return fmt.Errorf("%s/%s: the line of its type must come first", l.Type, *l.ID)
	case l.Shard < i.first || l.Shard >= i.end:
		return fmt.Errorf("%s/%s: shard %d: want %d to %d", l.Type, *l.ID, l.Shard, i.first, i.end-1)
	}
	if l.Image != nil {
		return i.restore(ctx, l)
	}
	if i.restored[l.Shard] {
		return nil // the shard's image has the entity, which was counted there
	}
	if len(l.Since) > 0 {
		return l.events()
	}
	i.entities++
	return i.writer.Write(ctx, storeops.Entity{Shard: l.Shard, ID: *l.ID, State: l.State, Form: l.StateVersion, Expires: l.expiry()})
}

// restore writes a part of a shard's image. It fails if the shard is in use.
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
			return fmt.Errorf("%w: command ids, tells and the journal of a shard in use cannot be replaced (shardctl store delete %s -force, and import the whole file; or -replace, if the shard was imported and not used since; or -states, to write only the states of entities)", err, i.kind)
		}
		i.used++
		i.restored[l.Shard] = false
		return nil // the lines of its entities follow
	}
	i.restored[l.Shard] = err == nil
	i.entities += part.Entities()
	return err
}

func (i *importer) begin(ctx context.Context, l line) error {
	if err := i.close(ctx, true); err != nil {
		return err
	}
	if l.Format == 0 || l.Cluster == "" || l.Shards == 0 {
		return fmt.Errorf("type %q: the line does not have the fields of an exported type", l.Type)
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
	if i.options.pause {
		if err := durablehost.PauseReminders(ctx, i.store, l.Type, &durablehost.Pause{Since: time.Now().UTC(), By: "import"}); err != nil {
			return err
		}
	}
	i.image, i.restored = 0, make(map[int]bool)
	writer.Replace = i.options.replace
	i.writer, i.kind, i.followers = writer, l.Type, l.Followers
	i.first, i.end = storeops.ShardsOf(t)
	i.types[l.Type] = true
	return nil
}

// close ends the import of a type. Followers get their positions only after an import of the whole
// type as images; otherwise the journal lacks events that they have read.
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

// replaceFile replaces the file at path if the function write succeeds. To what is not a regular
// file, such as a pipe, it writes directly.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		if mode = info.Mode(); !mode.IsRegular() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(file), file.Close())
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(write(file), file.Chmod(mode.Perm()), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
