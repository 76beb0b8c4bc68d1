package calls

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/shardgen/shardgen/internal/test/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
	memtransport "github.com/shardgen/shardgen/transport/memory"
)

const durableEntities = 10_000

// An instantStore acknowledges appends without keeping them, so that a benchmark measures only the
// calls.
type instantStore struct {
	*memory.Client
	shards instantShards
}

func (s *instantStore) Shards() store.Shards { return &s.shards }

type instantShards struct {
	store.Shards
	last    atomic.Uint64
	appends atomic.Int64
	queue   chan func() // acknowledgements that come later; nil means they come at once
}

// acknowledge acknowledges the appends in queue until it is closed.
func (s *instantShards) acknowledge() {
	var due []func()
	for f := range s.queue {
		runtime.Gosched() // all callers that can run append first, as they do while a server works
		due = append(due[:0], f)
		for range len(s.queue) {
			due = append(due, <-s.queue)
		}
		for _, f := range due {
			f()
		}
	}
}

// BeginAppend acknowledges an append. Claims are kept.
func (s *instantShards) BeginAppend(_ store.Shard, expect store.Position, _ []byte, done func(store.Position, func(context.Context) (store.Position, error))) bool {
	if expect == store.Any {
		return false
	}
	s.appends.Add(1)
	p := store.Position(s.last.Add(1))
	if s.queue == nil {
		done(p, nil)
		return true
	}
	s.queue <- func() { done(p, nil) }
	return true
}

// BenchmarkDurable measures calls to a durable entity in its process. For a lone caller the store
// acknowledges at once. Compare cpu-ns/op on one processor (-cpu 1), because wall time includes
// other processes.
func BenchmarkDurable(b *testing.B) {
	b.Run("lone", func(b *testing.B) { benchmarkDurable(b, 1) })
	for _, callers := range []int{256, 4096} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) { benchmarkDurable(b, callers) })
	}
}

func benchmarkDurable(b *testing.B, callers int) {
	kept := &instantStore{Client: memory.New().Client()}
	kept.shards.Shards = kept.Client.Shards()
	kept.shards.last.Store(1 << 20)
	if callers > 1 {
		kept.shards.queue = make(chan func(), 1024)
		go kept.shards.acknowledge() // ends with the channel
	}
	node := shard.New(shard.Config{
		Cluster: "durable", Name: "node", Transport: memtransport.NewBroker(memtransport.Options{}).Transport(), Store: kept,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err := vault.HostVault(node, func() *vault.Vault { return &vault.Vault{} }, shard.IdleAfter(0)); err != nil {
		b.Fatal(err)
	}
	if err := node.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	client := vault.NewVaultClient(node)
	refs := make([]vault.VaultRef, durableEntities)
	for i := range refs {
		refs[i] = client.Ref("entity-" + strconv.Itoa(i))
		if _, err := refs[i].Add(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
	begun := kept.shards.appends.Load()
	var workers atomic.Uint64
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	if callers == 1 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	b.ReportAllocs()
	used := cpuTime()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(1, workers.Add(1)))
		for pb.Next() {
			if _, err := refs[random.IntN(len(refs))].Add(b.Context(), 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(kept.shards.appends.Load()-begun), "calls/append")
	b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
}
