package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/ops/storeops"
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

// checkRepair returns the shard of the entity that a repair replaces with e or drops. It is called
// before any write, because a repair begins by deleting the damaged record.
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

// repairShard replaces a shard by its image in an export, or by its readable parts.
func repairShard(ctx context.Context, s *natsstore.Store, t durablehost.Type, o *storeOptions, w io.Writer) error {
	if first, end := storeops.ShardsOf(t); o.shard < first || o.shard >= end {
		return fmt.Errorf("%s has no shard %d: want %d to %d", o.kind, o.shard, first, end-1)
	}
	shard := store.Shard{Type: o.kind, Number: o.shard}
	image, err := storeops.Image{}, error(nil)
	if o.drop {
		image, err = dropDamage(ctx, s, shard, w)
	} else {
		image, err = imageIn(o.from, t, shard)
	}
	if err != nil {
		return err
	}
	writer, err := storeops.NewWriter(ctx, s, o.kind, t)
	if err != nil {
		return err
	}
	if err := errors.Join(writer.ReplaceShard(ctx, o.shard, image), writer.Close(ctx)); err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	if _, err = fmt.Fprintf(w, "shard %v: replaced, with %d records\n", shard, len(image.Records)); err != nil {
		return err
	}
	return printLost(ctx, s, shard, w)
}

// dropDamage returns a shard's image without damaged parts, which it prints.
func dropDamage(ctx context.Context, s *natsstore.Store, shard store.Shard, w io.Writer) (storeops.Image, error) {
	snap, image, err := storeops.ReadAll(ctx, s, shard)
	switch {
	case err != nil:
		return image, err
	case len(snap.Problems) == 0:
		return image, fmt.Errorf("shard %v: nothing is damaged: all parts can be decoded", shard)
	case image.Head == nil:
		return image, fmt.Errorf("shard %v: too little of it can be decoded to open it again (replace it by its image in an export: -from FILE)", shard)
	}
	for _, p := range snap.Problems {
		if _, err := fmt.Fprintf(w, "shard %v: dropped: %s: %v\n", shard, p.Place, p.Err); err != nil {
			return image, err
		}
	}
	return image, nil
}

func imageIn(path string, t durablehost.Type, shard store.Shard) (image storeops.Image, err error) {
	file, err := os.Open(path)
	if err != nil {
		return image, err
	}
	defer func() { _ = file.Close() }() // it was only read
	whole := false
	err = readLines(file, func(l line) error {
		switch {
		case l.Type != shard.Type:
		case l.ID == nil && l.Image == nil && (l.Shards != t.Shards || l.Hash != t.Hash || l.Cluster != t.Cluster):
			return fmt.Errorf("the export has %d shards with hash %s in cluster %s, and the store has %d with hash %s in cluster %s", l.Shards, l.Hash, l.Cluster, t.Shards, t.Hash, t.Cluster)
		case l.Image != nil && l.Shard == shard.Number:
			if whole { // several exports in one file: the last counts
				image.Records = nil
			}
			image.Head = l.Image.Head
			for _, r := range l.Image.Records {
				image.Records = append(image.Records, store.Change{ID: string(r.Key), Value: r.Value})
			}
			whole = l.Image.Last
		}
		return nil
	})
	if err == nil && !whole {
		err = fmt.Errorf("no image of shard %v (an export of the whole type has it, unless the shard was never used or was damaged)", shard)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return image, err
}

// printLost prints the named followers that have read events which the journal does not have. It
// keeps the followers' positions: only their owners can rebuild what the followers have derived.
func printLost(ctx context.Context, s store.Backend, shard store.Shard, w io.Writer) error {
	lost, err := durablehost.LostFollowers(ctx, s, shard)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if err == nil {
			_, err = fmt.Fprintf(w, "shard %v: follower %s: %v\n", shard, name, lost[name])
		}
	}
	return err
}

func storeDelete(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	if o.follower != "" {
		if err := durablehost.DropFollower(ctx, s, o.kind, o.follower); err != nil {
			return fmt.Errorf("follower %s of %s: %w", o.follower, o.kind, err)
		}
		_, err := fmt.Fprintf(w, "the position of follower %s of %s is deleted\n", o.follower, o.kind)
		return err
	}
	if _, err := typesOf(ctx, s, o); err != nil {
		return err
	}
	t, err := storeops.TypeOf(ctx, s, o.kind)
	if err != nil {
		return err
	}
	if err := refuseHosted(ctx, o, o.kind, t); err != nil {
		return err
	}
	if err := s.DropType(ctx, o.kind); err != nil {
		return err
	}
	if err := durablehost.DropFollowers(ctx, s, o.kind); err != nil {
		return err
	}
	key := durablehost.TypeKey(o.kind)
	r, err := s.Get(ctx, key)
	if err == nil {
		err = s.Delete(ctx, key, r.Revision)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "type %s is deleted\n", o.kind)
	return err
}

// storeClear deletes a cluster's records that do not belong to durable entities.
func storeClear(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	cluster := o.kind // the argument
	v, err := membersOf(ctx, o, cluster)
	if err != nil {
		return fmt.Errorf("cluster %s: ask its members whether it runs: %w", cluster, err)
	}
	if len(v.Members) > 0 {
		return fmt.Errorf("cluster %s runs, with %s among its %d members: stop all its processes first", cluster, v.Members[0].Name, len(v.Members))
	}
	if o.terms { // before anything is deleted
		if err := storeops.RefuseDurable(ctx, s, cluster); err != nil {
			return err
		}
	}
	if o.remembered {
		n, err := storeops.DropRemembered(ctx, s, cluster)
		if err != nil {
			return fmt.Errorf("cluster %s: %d records of remembered ids were deleted, and then: %w (repeat the command)", cluster, n, err)
		}
		if _, err := fmt.Fprintf(w, "cluster %s: %d records of remembered ids are deleted\n", cluster, n); err != nil {
			return err
		}
	}
	if o.leases {
		singletons, err := s.DropLeases(ctx, "singleton/"+cluster+"/")
		downing, errDowning := s.DropLeases(ctx, cluster+"/downing/")
		if err := errors.Join(err, errDowning); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "cluster %s: %d leases of singletons and %d of downing are deleted\n", cluster, singletons, downing); err != nil {
			return err
		}
	}
	if o.table {
		n, err := storeops.DropTable(ctx, s.Members(cluster))
		if err != nil {
			return fmt.Errorf("cluster %s: %d rows of the membership table were deleted, and then: %w (repeat the command)", cluster, n, err)
		}
		if _, err := fmt.Fprintf(w, "cluster %s: %d rows of the membership table are deleted\n", cluster, n); err != nil {
			return err
		}
	}
	if !o.terms {
		return nil
	}
	term, err := storeops.DropTerms(ctx, s, cluster)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "cluster %s: the record of its terms is deleted, the last was %d\n", cluster, term)
	return err
}
