package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/ops/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// each calls the function do for each shard of a type.
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

// eachAll is like each, and passes the image, too.
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

// typesOf returns the type named in o, or all types.
func typesOf(ctx context.Context, s *natsstore.Store, o *storeOptions) ([]natsstore.Type, error) {
	types, err := s.Types(ctx)
	if err != nil || o.kind == "" {
		return types, err
	}
	i := slices.IndexFunc(types, func(t natsstore.Type) bool { return t.Name == o.kind })
	if i < 0 {
		var names []string
		for _, t := range types {
			names = append(names, t.Name)
		}
		return nil, fmt.Errorf("type %s is not in the store %s, which has %s", o.kind, o.store, cmp.Or(strings.Join(names, ", "), "no types"))
	}
	return types[i : i+1], nil
}

type storedType struct {
	Type     string `json:"type"`
	Cluster  string `json:"cluster"`
	Shards   uint32 `json:"shards"`
	Entities int    `json:"entities"`
	Bytes    uint64 `json:"bytes"` // of the streams, in one copy
	Replicas int    `json:"replicas"`
	Problems int    `json:"problems"`
}

func storeList(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	if o.kind != "" {
		return listEntities(ctx, s, o, w)
	}
	all := make([]storedType, 0, len(types))
	for _, found := range types {
		t, err := storeops.TypeOf(ctx, s, found.Name)
		if err != nil {
			return err
		}
		row := storedType{Type: found.Name, Cluster: t.Cluster, Shards: t.Shards, Bytes: found.Bytes, Replicas: found.Replicas}
		err = each(ctx, s, found.Name, t, func(_ store.Shard, snap durable.Snapshot) error {
			row.Entities += len(snap.Entities)
			row.Problems += len(snap.Problems)
			return nil
		})
		if err != nil {
			return err
		}
		all = append(all, row)
	}
	if o.json {
		return printJSON(w, all)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TYPE\tCLUSTER\tSHARDS\tENTITIES\tBYTES\tREPLICAS\tUNREADABLE")
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", r.Type, r.Cluster, r.Shards, r.Entities, r.Bytes, r.Replicas, r.Problems)
	}
	return table.Flush()
}

type storedEntity struct {
	ID      string    `json:"id"` // in base64 if Binary
	Binary  bool      `json:"binary,omitempty"`
	Shard   int       `json:"shard"`
	Version uint64    `json:"version"`
	Bytes   int       `json:"bytes"` // of its state and the events that follow it
	Expires time.Time `json:"expires,omitzero"`
}

func bySize(a, b storedEntity) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
}

// listEntities prints the o.most largest entities. It keeps at most 2*o.most in memory.
func listEntities(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	t, err := storeops.TypeOf(ctx, s, o.kind)
	if err != nil {
		return err
	}
	largest, count, bytes := []storedEntity{}, 0, 0
	err = each(ctx, s, o.kind, t, func(shard store.Shard, snap durable.Snapshot) error {
		for _, k := range snap.Entities {
			e := storedEntity{Shard: shard.Number, Version: k.Version, Bytes: len(k.State), Expires: expiresAt(k.Expires)}
			e.ID, e.Binary = textOf(k.ID)
			for _, event := range k.Since {
				e.Bytes += len(event)
			}
			count++
			bytes += e.Bytes
			if largest = append(largest, e); len(largest) >= 2*o.most {
				slices.SortFunc(largest, bySize)
				largest = largest[:o.most]
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(largest, bySize)
	largest = largest[:min(len(largest), o.most)]
	if o.json {
		return printJSON(w, largest)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENTITY\tSHARD\tVERSION\tBYTES")
	for _, e := range largest {
		id, err := idOf(e.ID, e.Binary)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", textual(id), e.Shard, e.Version, e.Bytes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d of %d entities, which have %d bytes\n", len(largest), count, bytes)
	return err
}

// textual quotes an empty id, and one with special characters.
func textual(id string) string {
	if quoted := strconv.Quote(id); len(quoted) != len(id)+2 || id == "" {
		return quoted
	}
	return id
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
		expires = fmt.Sprintf(", its state is of version %d%s", found.kept.Form, expires)
	}
	if n := len(found.kept.Since); n > 0 {
		expires = fmt.Sprintf("%s, %d events behind the state", expires, n)
	}
	_, err = fmt.Fprintf(w, "%s/%s in shard %d, version %d%s, %d bytes: %x\n",
		o.kind, o.id, found.shard.Number, found.kept.Version, expires, len(found.kept.State), found.kept.State)
	return err
}

type sought struct {
	shard   store.Shard // without a type if the entity is nowhere
	kept    durable.StoredEntity
	problem error // why the record cannot be decoded
	bytes   []byte
}

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

// metaType is natsstore's metadata key for a type's name.
const metaType = "shardgen.type"

type storeProblem struct {
	Shard string `json:"shard,omitempty"` // "": it is of a stream
	Place string `json:"place"`
	Error string `json:"error"`
}

func storeVerify(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	shards, entities := 0, 0
	problems, err := emptied(ctx, o)
	if err != nil {
		return err
	}
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
			if p.Shard != "" {
				fmt.Fprintf(w, "shard %s: ", p.Shard)
			}
			fmt.Fprintf(w, "%s: %s\n", p.Place, p.Error)
		}
		_, err = fmt.Fprintf(w, "%d types, %d shards, %d entities can be read in the store's format (the states in them were not decoded: only a program that hosts the type can do that)\n", len(types), shards, entities)
	}
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%d heads, appends or records cannot be decoded or are missing (shardctl store repair TYPE ID for a record of an entity, TYPE -shard N for the rest)", len(problems))
	}
	return err
}

// emptied returns streams that had messages but have none now. No program of shardgen empties
// streams.
func emptied(ctx context.Context, o *storeOptions) ([]storeProblem, error) {
	js, err := dialJetStream(ctx, &o.connection)
	if err != nil {
		return nil, err
	}
	defer js.conn.Close()
	list, err := js.streams(o.store + ".>")
	if err != nil {
		return nil, err
	}
	problems := []storeProblem{}
	for _, s := range list.Streams {
		kind, err := strconv.Unquote(s.Config.Metadata[metaType])
		if err == nil && (o.kind == "" || o.kind == kind) && s.State.Msgs == 0 && s.State.LastSeq >= max(s.Config.FirstSeq, 1) {
			problems = append(problems, storeProblem{
				Place: "stream " + s.Config.Name, Error: "it is empty, and had messages: the store has lost all of it (restore a backup)",
			})
		}
	}
	return problems, nil
}

func storeTable(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	cluster := o.kind // the argument
	table, err := s.Members(cluster).Read(ctx, 0)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, table)
	}
	t := tableOf(&options{}, "NODE", "INCARNATION", "STATUS", "ALIVE", "SUSPECTED BY", "WRITTEN AT VERSION")
	for _, r := range table.Rows {
		var by []string
		for _, s := range r.Suspicions {
			by = append(by, fmt.Sprintf("%s (%s)", s.By.Name, ago(s.At)))
		}
		t.row(r.ID.Name, fmt.Sprintf("%016x", r.ID.Incarnation), r.Status, ago(r.Alive), list(by), r.Version)
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d rows at version %d\n", len(table.Rows), table.Version)
	return err
}
