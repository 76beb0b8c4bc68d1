package storeops

import (
	"context"
	"sync"
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A tracked is a store in memory that can say where its logs end.
type tracked struct {
	*memory.Client
	mu   sync.Mutex
	last map[store.Shard]store.Position
}

func newTracked() *tracked {
	return &tracked{Client: memory.New().Client(), last: make(map[store.Shard]store.Position)}
}

func (s *tracked) Last(_ context.Context, shard store.Shard) (store.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[shard], nil
}

func (s *tracked) Shards() store.Shards { return trackedShards{s.Client.Shards(), s} }

type trackedShards struct {
	store.Shards
	tracked *tracked
}

func (s trackedShards) Append(ctx context.Context, shard store.Shard, expect store.Position, data []byte) (store.Position, error) {
	p, err := s.Shards.Append(ctx, shard, expect, data)
	if err == nil {
		s.tracked.mu.Lock()
		defer s.tracked.mu.Unlock()
		s.tracked.last[shard] = p
	}
	return p, err
}

// TestRestoreReplaces checks that an image restored over an earlier one leaves nothing of the
// earlier one.
func TestRestoreReplaces(t *testing.T) {
	s, shard := newTracked(), store.Shard{Type: "X", Number: 1}
	image := func(states map[string]string) (i Image) {
		i.Head = durable.FreshHead("n", 5, writerEpoch, nil)
		for id, state := range states { //arch:order-free each by itself
			i.Records = append(i.Records, store.Change{ID: durable.EntityKey(id), Value: sealed(t, &wire.DurableRecord{Format: 1, Entity: []byte(id), Version: 1, State: []byte(state)})})
		}
		return i
	}
	for _, states := range []map[string]string{{"a": "1", "b": "1"}, {"a": "2"}} {
		w, err := NewWriter(t.Context(), s, "X", durablehost.Type{Cluster: "c", Shards: 1, Hash: "h"})
		if err != nil {
			t.Fatal(err)
		}
		w.Replace = true
		if err := w.Restore(t.Context(), 1, image(states), true, true); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		snap, err := ReadShard(t.Context(), s, shard)
		if err != nil || len(snap.Problems) > 0 || len(snap.Entities) != len(states) {
			t.Fatalf("%+v, %v: want %v", snap, err, states)
		}
		for _, e := range snap.Entities {
			if string(e.State) != states[e.ID] {
				t.Errorf("%s is %q, want %q", e.ID, e.State, states[e.ID])
			}
		}
	}
}
