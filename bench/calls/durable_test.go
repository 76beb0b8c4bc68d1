package calls

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
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
	kept := newInstantStore(b, callers > 1)
	client := bank.NewWalletClient(startWallets(b, kept, 1)[0])
	refs := make([]bank.WalletRef, durableEntities)
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

// newInstantStore returns a store whose acknowledgements come later if queued is set.
func newInstantStore(b *testing.B, queued bool) *instantStore {
	kept := &instantStore{Client: memory.New().Client()}
	kept.shards.Shards = kept.Client.Shards()
	kept.shards.last.Store(1 << 20)
	if queued {
		kept.shards.queue = make(chan func(), 1024)
		go kept.shards.acknowledge() // ends with the channel
	}
	return kept
}

// startWallets starts nodes of one cluster that host wallets.
func startWallets(b *testing.B, kept *instantStore, count int) (nodes []*shard.Node) {
	broker := memtransport.NewBroker(memtransport.Options{})
	for i := range count {
		node := shard.New(shard.Config{
			Cluster: "durable", Name: "node" + strconv.Itoa(i), Transport: broker.Transport(), Store: kept,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		client := bank.NewWalletClient(node)
		make := func() *bank.Wallet {
			return &bank.Wallet{Others: func(id string) bank.WalletAPI { return client.Ref(id) }}
		}
		if err := bank.HostWallet(node, make, shard.IdleAfter(0)); err != nil {
			b.Fatal(err)
		}
		if err := node.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	return nodes
}

// BenchmarkDurableTells measures tells between durable entities of one process, and of two. An
// operation is a tell, with its share of the turn that made it.
func BenchmarkDurableTells(b *testing.B) {
	for _, nodes := range []int{1, 2} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) { benchmarkDurableTells(b, nodes) })
	}
}

func benchmarkDurableTells(b *testing.B, nodes int) {
	const each, callers = 64, 16
	client := bank.NewWalletClient(startWallets(b, newInstantStore(b, true), nodes)[0])
	refs, ids := make([]bank.WalletRef, durableEntities), make([]string, durableEntities)
	for i := range refs {
		ids[i] = "entity-" + strconv.Itoa(i)
		refs[i] = client.Ref(ids[i])
		if _, err := refs[i].Add(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
	arrived := func() (n int64) {
		for i := range refs {
			total, err := refs[i].Get(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			n += total
		}
		return n
	}
	turns := (b.N + each - 1) / each
	b.ReportAllocs()
	used := cpuTime()
	b.ResetTimer()
	var next atomic.Int64
	var senders sync.WaitGroup
	for w := range callers {
		senders.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(w)))
			for next.Add(1) <= int64(turns) {
				to := make([]string, each)
				for i := range to {
					to[i] = ids[random.IntN(len(ids))]
				}
				if err := refs[random.IntN(len(refs))].Scatter(b.Context(), to); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	for arrived() < int64(turns*each) {
		<-time.After(5 * time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
}
