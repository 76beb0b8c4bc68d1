package durablehost

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// A Follower reads the journals of all shards of a type. It is not safe for concurrent use.
type Follower struct {
	Store  store.Shards
	Type   string
	Places []durable.Place // by shard, as many as the type has
}

// Number is the number of the shard whose place is Places[i]. A type's shards are numbered
// from their count on: see package placement.
func (f *Follower) Number(i int) int { return len(f.Places) + i }

// readAtOnce is how many journals one follower reads at the same time.
const readAtOnce = 16

// Poll returns events of all shards that have any after the follower's places, by shard. A
// shard's events are in order. The places do not move: see Read.
func (f *Follower) Poll(ctx context.Context) ([][]durable.Recorded, error) {
	all := make([][]durable.Recorded, len(f.Places))
	errs := make([]error, len(f.Places))
	for first := 0; first < len(all); first += readAtOnce {
		var wg sync.WaitGroup
		for i := first; i < min(first+readAtOnce, len(all)); i++ {
			wg.Go(func() { all[i], errs[i] = f.poll(ctx, i) })
		}
		wg.Wait()
	}
	return all, errors.Join(errs...)
}

func (f *Follower) poll(ctx context.Context, i int) ([]durable.Recorded, error) {
	shard, place := store.Shard{Type: f.Type, Number: f.Number(i)}, f.Places[i]
	_, index, err := f.Store.Get(ctx, shard, []string{durable.JournalIndex}, store.None)
	if err != nil {
		return nil, err
	}
	keys, err := place.Keys(index[0])
	if err != nil || len(keys) == 0 {
		return nil, wrap(shard, err)
	}
	_, records, err := f.Store.Get(ctx, shard, keys, store.None)
	if err != nil {
		return nil, err
	}
	events, after, err := place.Next(records)
	if err == nil && len(events) == 0 {
		f.Places[i] = after
	}
	return events, wrap(shard, err)
}

func wrap(shard store.Shard, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %v: %w", shard, err)
}

// Read notes that an event was read.
func (f *Follower) Read(i int, e durable.Recorded) { f.Places[i] = e.Place }
