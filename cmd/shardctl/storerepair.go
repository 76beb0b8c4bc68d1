package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/internal/storeops"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func storeRepair(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	t, err := storeops.TypeOf(ctx, s, o.kind)
	if err != nil {
		return err
	}
	if err := refuseHosted(ctx, o, o.kind, t); err != nil {
		return err
	}
	if o.shard != 0 {
		return repairShard(ctx, s, t, o, w)
	}
	e := storeops.Entity{ID: o.id, Ended: o.drop}
	if o.from != "" {
		file, err := os.Open(o.from)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		if e, err = findEntity(file, o.kind, o.id); err != nil {
			return fmt.Errorf("%s: %w", o.from, err)
		}
	}
	found, err := find(ctx, s, t, o)
	if err != nil {
		return err
	}
	if found.problem != nil {
		if err := storeops.DropRecord(ctx, s, t.Cluster, found.shard, o.id); err != nil {
			return err
		}
	}
	if o.from != "" && found.shard.Type != "" && e.Shard != found.shard.Number {
		return fmt.Errorf("%s/%s is in shard %d, and the file says %d", o.kind, o.id, found.shard.Number, e.Shard)
	}
	if found.shard.Type != "" {
		e.Shard = found.shard.Number
	}
	if found.shard.Type == "" && o.drop {
		return fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	}
	wr, err := storeops.NewWriter(ctx, s, o.kind, t)
	if err != nil {
		return err
	}
	wr.Replace = true
	if err := errors.Join(wr.Write(ctx, e), wr.Close(ctx)); err != nil {
		return err
	}
	done := "replaced"
	if o.drop {
		done = "dropped"
	}
	_, err = fmt.Fprintf(w, "%s/%s: state %s\n", o.kind, o.id, done)
	return err
}
