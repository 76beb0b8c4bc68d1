package durablehost

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/shardgen/shardgen/store"
)

// TermsKey is the key of the record of the terms of a cluster's coordinators.
func TermsKey(cluster string) string { return "terms/" + cluster }

// NextTerm returns the term of a coordinator that takes over: above all before it, over full
// restarts too, and at least the given one. Before is the term of the record that it replaced,
// 0 if there was none. It tries once.
func NextTerm(ctx context.Context, s store.Store, cluster string, atLeast uint32) (next, before uint32, err error) {
	key := TermsKey(cluster)
	found, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, 0, err
	}
	term := uint64(0)
	if err == nil {
		if term, err = strconv.ParseUint(string(found.Value), 10, 32); err != nil {
			return 0, 0, fmt.Errorf("record %q of the store is damaged: %w (restore it, or write a number above all earlier terms)", key, err)
		}
	}
	before = uint32(term)
	term = max(term+1, uint64(atLeast))
	if term >= 1<<32 {
		return 0, 0, fmt.Errorf("record %q of the store has reached the last term", key)
	}
	if _, err := s.Put(ctx, key, strconv.AppendUint(nil, term, 10), found.Revision); err != nil {
		return 0, 0, err
	}
	return uint32(term), before, nil
}

// LastTerm returns the highest term that the store's record has; 0 means there is none.
func LastTerm(ctx context.Context, s store.Store, cluster string) (uint32, error) {
	found, err := s.Get(ctx, TermsKey(cluster))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	term, err := strconv.ParseUint(string(found.Value), 10, 32)
	return uint32(term), err
}

// RaiseTerm has later terms be above one that was met. It returns the last term then.
func RaiseTerm(ctx context.Context, s store.Store, cluster string, met uint32) (last uint32, err error) {
	key := TermsKey(cluster)
	found, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	if term, err := strconv.ParseUint(string(found.Value), 10, 32); err == nil && uint32(term) >= met {
		return uint32(term), nil
	}
	_, err = s.Put(ctx, key, strconv.AppendUint(nil, uint64(met), 10), found.Revision)
	return met, err
}
