package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

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

// A sought is the result of looking for an entity.
type sought struct {
	shard   store.Shard // without a type if the entity is nowhere
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
