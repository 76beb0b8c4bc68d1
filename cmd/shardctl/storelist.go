package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// A storedType is a type as list prints it.
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

// A storedEntity is an entity as list prints it.
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

// listEntities prints the o.most largest entities of a type. It never keeps more than 2*o.most.
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

// textual is an id as storeList prints it: quoted if it is empty, or if quoting changes any of its
// characters.
func textual(id string) string {
	if quoted := strconv.Quote(id); len(quoted) != len(id)+2 || id == "" {
		return quoted
	}
	return id
}
