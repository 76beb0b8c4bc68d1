package remembering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport"
)

// A process is a member that holds its lease and sends nothing.
type process struct {
	Process
	incarnation uint64
	log         *slog.Logger
}

func (p process) Self() transport.Address {
	return transport.Address{Name: "n", Incarnation: p.incarnation}
}
func (p process) Cluster() string              { return "c" }
func (p process) Log() *slog.Logger            { return p.log }
func (p process) Context() context.Context     { return context.Background() }
func (p process) MayAnswer() bool              { return true }
func (p process) Count(Counter) (uint64, bool) { return 1, false }

// recorderOf returns the recorder of a program with the given number of shards and shard function.
func recorderOf(incarnation uint64, s *memorystore.Client, shards uint32, hash string) *recorder {
	m := New(process{incarnation: incarnation, log: slog.New(slog.DiscardHandler)})
	return newRecorder(m, "K", Settings{
		Store: s, Shards: shards, HashName: hash,
		Locate: func(id string) (uint32, error) {
			if id == "refused" && hash != "a" {
				return 0, errors.New("no id")
			}
			return placement.ShardOf(xxhash.Sum64String(hash+id), shards), nil
		},
	})
}

// write stores n ids in the way in which the homes of their shards store them.
func write(t *testing.T, r *recorder, space string, n int) {
	t.Helper()
	sets := map[uint32]*wire.RememberSet{}
	for i := range n {
		id := fmt.Sprint("e", i)
		shard, err := r.locate(id)
		require.NoError(t, err)
		if sets[shard] == nil {
			sets[shard] = &wire.RememberSet{Kind: "K", Shard: shard}
		}
		sets[shard].Ids = append(sets[shard].Ids, []byte(id))
	}
	for shard, set := range sets {
		value, err := proto.Marshal(set)
		require.NoError(t, err)
		// A move takes ids from all records of a shard, so one is enough here.
		_, err = r.store.Put(t.Context(), recordKey(r.base()+space+"/", placement.ShardID{Kind: "K", Shard: shard}, 0), value, store.None)
		require.NoError(t, err)
	}
}

// found returns how often each id is in a space. It fails if an id is not in its shard.
func found(t *testing.T, r *recorder, space string) map[string]int {
	t.Helper()
	times := map[string]int{}
	records, err := r.store.List(t.Context(), r.base()+space+"/")
	require.NoError(t, err)
	for _, record := range records {
		var set wire.RememberSet
		require.NoError(t, proto.Unmarshal(record.Value, &set))
		for _, id := range set.GetIds() {
			shard, err := r.locate(string(id))
			require.NoError(t, err)
			require.Equal(t, set.GetShard(), shard)
			require.Contains(t, record.Key, fmt.Sprintf("/%d/", shard))
			times[string(id)]++
		}
	}
	return times
}

// TestIDsMoveToAnotherLayout: several programs with a new number of shards or a new shard function
// start at once, over a store that fails and leaves writes in doubt. All of them find the same ids,
// each once, in its new shard. What programs write that end during the move has no effect.
func TestIDsMoveToAnotherLayout(t *testing.T) {
	const ids = 60
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 13))
		server := memorystore.New()
		first := recorderOf(1, server.Client(), 16, "a")
		space, err := first.settle(t.Context())
		require.NoError(t, err)
		write(t, first, space, ids)
		for round := range 4 {
			shards, hash := uint32(4<<random.IntN(4)), string("ab"[random.IntN(2)])
			var group sync.WaitGroup
			spaces := make([]string, 3)
			for i := range spaces {
				client, faults := server.Client(), rand.New(rand.NewPCG(seed, uint64(100*round+i)))
				var mu sync.Mutex
				client.Fault(func(memorystore.Op) (f memorystore.Fault) {
					mu.Lock()
					defer mu.Unlock()
					f.Loss = map[int]memorystore.Loss{1: memorystore.LoseRequest, 2: memorystore.LoseAnswer, 3: memorystore.LoseTouch}[faults.IntN(90)]
					f.Late = time.Duration(faults.IntN(3)) * time.Millisecond
					return f
				})
				attempts := 1 + faults.IntN(8)
				if i == 0 {
					attempts = 1000 // one program goes on until it succeeds
				}
				r := recorderOf(uint64(10*round+i+2), client, shards, hash)
				group.Go(func() {
					for range attempts {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						space, err := r.settle(ctx)
						cancel()
						if err == nil {
							spaces[i] = space
							return
						}
					}
				})
			}
			group.Wait()
			r := recorderOf(uint64(10*round+9), server.Client(), shards, hash)
			space, err := r.settle(t.Context())
			require.NoError(t, err)
			for _, s := range spaces {
				require.True(t, s == "" || s == space, "seed %d: %v, want %s", seed, spaces, space)
			}
			got := found(t, r, space)
			require.Len(t, got, ids, "seed %d", seed)
			for id, n := range got {
				require.Equal(t, 1, n, "seed %d: %s", seed, id)
			}
		}
	}
}

// TestMovedLayoutLeavesNothing: the move deletes the records of the former layout, and records of
// processes that ended while they moved ids. An id that the new shard function refuses is dropped.
func TestMovedLayoutLeavesNothing(t *testing.T) {
	server := memorystore.New()
	old := recorderOf(1, server.Client(), 16, "a")
	space, err := old.settle(t.Context())
	require.NoError(t, err)
	write(t, old, space, 50)
	refused, err := old.locate("refused")
	require.NoError(t, err)
	value, err := proto.Marshal(&wire.RememberSet{Kind: "K", Shard: refused, Ids: [][]byte{[]byte("refused")}})
	require.NoError(t, err)
	_, err = old.store.Put(t.Context(), recordKey(old.base()+space+"/", placement.ShardID{Kind: "K", Shard: refused}, 7), value, store.None)
	require.NoError(t, err)
	_, err = old.store.Put(t.Context(), old.base()+"00000000000000ff-1/20/3", nil, store.None) // of a process that ended
	require.NoError(t, err)

	r := recorderOf(2, server.Client(), 64, "b")
	space, err = r.settle(t.Context())
	require.NoError(t, err)
	got := found(t, r, space)
	require.Len(t, got, 50)
	require.NotContains(t, got, "refused")
	records, err := r.store.List(t.Context(), r.base())
	require.NoError(t, err)
	for _, record := range records {
		require.True(t, record.Key == r.base()+layoutName || strings.HasPrefix(record.Key, r.base()+space+"/"), record.Key)
	}
	again, err := recorderOf(3, server.Client(), 64, "b").settle(t.Context())
	require.NoError(t, err)
	require.Equal(t, space, again)
}

// TestDamagedLayout: if the stored record of the layout is damaged, no ids are moved, and the error
// names the remedy.
func TestDamagedLayout(t *testing.T) {
	r := recorderOf(1, memorystore.New().Client(), 16, "a")
	_, err := r.store.Put(t.Context(), r.base()+layoutName, []byte("{"), store.None)
	require.NoError(t, err)
	_, err = r.settle(t.Context())
	require.ErrorContains(t, err, `record "remembered/c/K/layout" of the store is damaged`)
	require.ErrorContains(t, err, "shardctl store clear c -remembered")
}

// TestPlaceWaitsTogether: requests that wait while the store does not answer go on when it does. They
// wait in a way that lets virtual time pass.
func TestPlaceWaitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memorystore.New()
		r := recorderOf(1, server.Client(), 16, "a")
		server.Stop()
		placed := make(chan bool)
		for range 3 {
			go func() { placed <- r.place() }()
		}
		time.AfterFunc(10*placeRetry, func() { server.Start(0) })
		for range 3 {
			require.True(t, <-placed)
		}
	})
}
