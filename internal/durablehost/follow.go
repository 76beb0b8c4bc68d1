package durablehost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// A Follower reads the journals of all shards of a type: see NewFollower. It is not safe for concurrent use.
type Follower struct {
	Store  store.Shards
	Type   string
	Places []durable.Place // by shard, as many as the type has

	lost []time.Time // since when a shard's journal does not go on behind its place; zero means it does
}

// NewFollower returns one that begins anew.
func NewFollower(s store.Shards, kind string, shards int) Follower {
	return Follower{Store: s, Type: kind, Places: make([]durable.Place, shards), lost: make([]time.Time, shards)}
}

// lostAfter is how long a journal must look as if it did not go on behind a follower's place until that is
// true. Replicas may lag behind, and a stale answer looks the same: it has fewer events than the
// follower has read, or lacks a chunk. So these reads must be as new as the leader's records: see latest. In the midst of a
// Put a journal may lack a chunk too. So each of the reads during this time, of which there are about 12, must say
// the same, and one without an answer begins it anew.
const lostAfter = 3 * time.Second

// Number is the number of the shard whose place is Places[i]. A type's shards are numbered
// from their count on: see package placement.
func (f *Follower) Number(i int) int { return len(f.Places) + i }

const (
	// readAtOnce is how many journals one follower reads at the same time.
	readAtOnce = 16
	// readWithin bounds one answer of the store. It is no bound of all answers together: shards that
	// are asked last would never be read if the others take so long.
	readWithin = 5 * time.Second
)

// Poll returns events of all shards that have any after the follower's places, by shard. A
// shard's events are in order. The places do not move over events: see Read. There are no events until
// all shards have answered once, so that the places say of each shard from which event on it is
// followed.
func (f *Follower) Poll(ctx context.Context) ([][]durable.Recorded, error) {
	all := make([][]durable.Recorded, len(f.Places))
	errs := make([]error, len(f.Places))
	var wg sync.WaitGroup
	room := make(chan struct{}, readAtOnce)
	for i := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			all[i], errs[i] = f.poll(ctx, i)
		})
	}
	wg.Wait()
	if !f.Begun() {
		clear(all)
	}
	return all, errors.Join(errs...)
}

// Begun reports whether it is known of each shard from which event on it is followed.
func (f *Follower) Begun() bool { return !slices.Contains(f.Places, durable.Place{}) }

// poll reads one shard.
func (f *Follower) poll(ctx context.Context, i int) ([]durable.Recorded, error) {
	shard, since := store.Shard{Type: f.Type, Number: f.Number(i)}, f.lost[i]
	f.lost[i] = time.Time{}
	lost := (*durable.LostError)(nil)
	anew := f.Places[i] == durable.Place{}
	events, err := []durable.Recorded(nil), error(nil)
	if !anew {
		events, err = f.read(ctx, shard, i, store.None)
	}
	if anew || errors.As(err, &lost) {
		newest, errNewest := f.latest(ctx, shard)
		if errNewest != nil {
			return nil, errNewest
		}
		events, err = f.read(ctx, shard, i, newest)
	}
	if !errors.As(err, &lost) {
		return events, wrap(shard, err)
	}
	if since.IsZero() {
		since = time.Now()
	}
	if f.lost[i] = since; time.Since(since) < lostAfter {
		return nil, nil
	}
	return nil, wrap(shard, err)
}

// A leading store knows the revision of a shard's record that was written last.
type leading interface {
	Latest(ctx context.Context, s store.Shard) (store.Revision, error)
}

// latest returns a revision such that reads that are as new are not stale. Of a store that knows only the head, which
// may be older than the journal, these reads may be stale by as much.
func (f *Follower) latest(ctx context.Context, shard store.Shard) (store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if s, ok := f.Store.(leading); ok {
		return s.Latest(ctx, shard)
	}
	head, err := f.Store.Head(ctx, shard)
	return head.Revision, err
}

// read is poll with answers that are at least as new as a revision.
func (f *Follower) read(ctx context.Context, shard store.Shard, i int, atLeast store.Revision) ([]durable.Recorded, error) {
	events, after, err := f.Places[i].Look(func(keys ...string) ([]store.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		_, records, err := f.Store.Get(ctx, shard, keys, atLeast)
		return records, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0:
		f.Places[i] = after
	case f.Places[i] == durable.Place{}:
		f.Places[i] = durable.Place{Chunk: events[0].Place.Chunk, Number: events[0].Place.Number - 1}
	}
	return events, nil
}

func wrap(shard store.Shard, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %v: %w", shard, err)
}

// Read notes that an event was read.
func (f *Follower) Read(i int, e durable.Recorded) { f.Places[i] = e.Place }
