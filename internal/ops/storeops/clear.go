package storeops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// DropRemembered deletes the ids of a cluster's remembered entities, and returns the number of
// deleted records. The caller checks that no member runs.
func DropRemembered(ctx context.Context, s store.Store, cluster string) (n int, err error) {
	all, err := s.List(ctx, "remembered/"+cluster+"/")
	if err != nil {
		return 0, err
	}
	for _, r := range all {
		if err := s.Delete(ctx, r.Key, r.Revision); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// RefuseDurable fails if the store has a durable type of the cluster. If the cluster's terms
// started again, new epochs of the type's shards would be below the stored ones.
func RefuseDurable(ctx context.Context, s store.Store, cluster string) error {
	all, err := s.List(ctx, durablehost.TypeKey(""))
	if err != nil {
		return err
	}
	for _, r := range all {
		kind := strings.TrimPrefix(r.Key, durablehost.TypeKey(""))
		if t, err := TypeOf(ctx, s, kind); err != nil {
			return err
		} else if t.Cluster == cluster {
			return fmt.Errorf("cluster %s has the durable type %s, whose epochs must stay above all earlier epochs (first delete the type with all its entities: shardctl store delete %s -force)", cluster, kind, kind)
		}
	}
	return nil
}

// DropTerms deletes the record of the terms of a cluster's coordinators, and returns the last term;
// 0 means that there was no record. The caller checks that the cluster has no durable type.
func DropTerms(ctx context.Context, s store.Store, cluster string) (last uint32, err error) {
	r, err := s.Get(ctx, durablehost.TermsKey(cluster))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if last, err = durablehost.LastTerm(ctx, s, cluster); err != nil {
		last = 0 // the record is damaged, which deleting it mends
	}
	return last, s.Delete(ctx, r.Key, r.Revision)
}

// DropTable deletes all rows of a cluster's membership table, and returns their number. The caller
// checks that no member runs.
func DropTable(ctx context.Context, t membertable.Table) (n int, err error) {
	for {
		s, err := t.Read(ctx, 0)
		if err != nil || len(s.Rows) == 0 {
			return n, err
		}
		var ids []membertable.ID
		for _, r := range s.Rows[:min(len(s.Rows), membertable.MaxDelete)] {
			ids = append(ids, r.ID)
		}
		if _, err := t.Delete(ctx, s.Version, ids); err != nil {
			return n, err
		}
		n += len(ids)
	}
}
