package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// metaType is the key of a type's name in the metadata of its streams, as package natsstore writes it.
const metaType = "shardgen.type"

// A storeProblem is a problem as verify prints it.
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
		err = fmt.Errorf("%d heads, appends or records cannot be decoded or are missing (shardctl store repair mends a record by its entity, the rest by -shard)", len(problems))
	}
	return err
}

// emptied returns the streams of the types that had messages and have none. No program empties a stream.
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
