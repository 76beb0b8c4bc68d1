package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/store"
)

type keys struct {
	*writer
	name, stream string
}

var _ store.Store = (*keys)(nil)

// Get implements [store.Store]. It reads from the stream's leader.
func (k *keys) Get(ctx context.Context, key string) (store.Record, error) {
	const op = "get"
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, fail(op, key, err)
	}
	m, err := k.leaderHas(ctx, k.stream, getRequest{LastFor: keySubject(k.name, key)})
	if err == nil && (m == nil || m.deleted()) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, fail(op, key, err)
	}
	return store.Record{Key: key, Value: m.data, Revision: store.Revision(m.seq)}, nil
}

// Put implements [store.Store].
func (k *keys) Put(ctx context.Context, key string, value []byte, expect store.Revision) (store.Revision, error) {
	const op = "put"
	err := store.CheckKey(key)
	if err == nil {
		err = store.CheckSize(len(value), store.MaxValue)
	}
	if err != nil {
		return 0, fail(op, key, err)
	}
	seq, err := k.publishIdle(ctx, k.stream, message(keySubject(k.name, key), value, headerLast, number(expect)))
	if expect == store.None && errors.Is(err, store.ErrConflict) {
		seq, err = k.putOverDeleted(ctx, key, value)
	}
	if err != nil {
		return 0, fail(op, key, err)
	}
	return store.Revision(seq), nil
}

// putOverDeleted writes a new record, perhaps over the mark of a deleted record.
func (k *keys) putOverDeleted(ctx context.Context, key string, value []byte) (uint64, error) {
	subject := keySubject(k.name, key)
	m, err := k.leaderHas(ctx, k.stream, getRequest{LastFor: subject})
	switch {
	case err != nil:
		return 0, err
	case m == nil || !m.deleted(): // nil: the leader lags, or the mark has just expired
		return 0, store.ErrConflict
	}
	return k.publishIdle(ctx, k.stream, message(subject, value, headerLast, number(m.seq)))
}

// Delete implements [store.Store].
func (k *keys) Delete(ctx context.Context, key string, expect store.Revision) error {
	const op = "delete"
	if err := store.CheckKey(key); err != nil {
		return fail(op, key, err)
	}
	if expect == store.None {
		return fail(op, key, fmt.Errorf("%w: expected revision is None: read the record first", store.ErrBadKey))
	}
	_, err := k.publishIdle(ctx, k.stream,
		message(keySubject(k.name, key), nil, headerLast, number(expect), headerDeleted, "1", headerTTL, deletedFor))
	return fail(op, key, err)
}

// List implements [store.Store].
func (k *keys) List(ctx context.Context, prefix string) ([]store.Record, error) {
	const op = "list"
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, fail(op, prefix, err)
	}
	info, there, err := k.info(ctx, k.stream)
	if err == nil && !there {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, missing(k.stream))
	}
	if err != nil {
		return nil, fail(op, prefix, err)
	}
	var found []store.Record
	err = k.again(ctx, func(ctx context.Context) (bool, error) {
		found, err = k.list(ctx, keySubject(k.name, prefix)+">", info.State.LastSeq)
		return err == nil, err
	})
	if err != nil {
		return nil, fail(op, prefix, err)
	}
	slices.SortFunc(found, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// list returns the matching records, unordered. It fails if the first replica that answers lacks
// sequence upTo.
func (k *keys) list(ctx context.Context, filter string, upTo uint64) ([]store.Record, error) {
	// An answer for one subject has the replica's last sequence. The next request usually goes to
	// the same replica.
	p, err := k.page(ctx, k.stream, getRequest{MultiLast: []string{filter}, Batch: 1})
	if err == nil && p.upTo != 0 && p.upTo < upTo {
		return nil, fmt.Errorf("%w: all replicas that answer lag (try again)", store.ErrUnavailable)
	}
	byKey := make(map[string]store.Record)
	var after uint64
	for {
		p, err := k.page(ctx, k.stream, getRequest{Seq: after + 1, NextFor: filter, Batch: pageMessages, MaxBytes: pageBytes})
		if err != nil {
			return nil, err
		}
		for _, m := range p.messages {
			after = m.seq
			key := strings.ReplaceAll(strings.TrimPrefix(m.subject, keySubject(k.name, "")), ".", "/")
			delete(byKey, key)
			if !m.deleted() {
				byKey[key] = store.Record{Key: key, Value: m.data, Revision: store.Revision(m.seq)}
			}
		}
		if !p.more || len(p.messages) == 0 {
			break
		}
	}
	found := make([]store.Record, 0, len(byKey))
	for _, r := range byKey {
		found = append(found, r)
	}
	return found, nil
}
