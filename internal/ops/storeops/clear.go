package storeops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
)

// DropRemembered deletes the ids of a cluster's remembered entities, and returns the number of
// records. No member may run, which the caller checks.
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

// RefuseDurable fails if the store has a durable type of the cluster. New terms would begin below the
// epochs of its shards.
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
			return fmt.Errorf("cluster %s has the durable type %s, and its epochs must stay above all earlier ones (delete the type with all its entities before: shardctl store delete %s -force)", cluster, kind, kind)
		}
	}
	return nil
}

// DropTerms deletes the record of the terms of a cluster's coordinators, and returns the last term; 0
// means there was no record. The cluster must have no durable type, which the caller checks.
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
