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
	if e.Shard, err = checkRepair(ctx, s, t, o, e, found); err != nil {
		return err
	}
	if found.problem != nil {
		if err := storeops.DropRecord(ctx, s, t.Cluster, found.shard, o.id); err != nil {
			return err
		}
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

// checkRepair returns the shard of an entity that is to be replaced by e, or dropped. It fails if that cannot be
// done, before anything is written: a damaged record is deleted first.
func checkRepair(ctx context.Context, s *natsstore.Store, t durablehost.Type, o *storeOptions, e storeops.Entity, found sought) (int, error) {
	first, end := storeops.ShardsOf(t)
	switch there := found.shard.Type != ""; {
	case o.drop && !there:
		return 0, fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	case !o.drop && (e.Shard < first || e.Shard >= end):
		return 0, fmt.Errorf("%s/%s: the file says shard %d: want %d to %d", o.kind, o.id, e.Shard, first, end-1)
	case !o.drop && there && e.Shard != found.shard.Number:
		return 0, fmt.Errorf("%s/%s is in shard %d, and the file says %d", o.kind, o.id, found.shard.Number, e.Shard)
	case !there:
		return e.Shard, nil
	}
	if err := store.CheckSize(len(o.id)+len(e.State), store.MaxValue); err != nil {
		return 0, fmt.Errorf("%s/%s: %w", o.kind, o.id, err)
	}
	if found.problem == nil {
		return found.shard.Number, nil
	}
	return found.shard.Number, storeops.CheckRepair(ctx, s, found.shard, o.id)
}
