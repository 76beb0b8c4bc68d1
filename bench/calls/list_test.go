package calls

import (
	"flag"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/vault"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

var listed = flag.Int("ids", 20_000, "how many ids BenchmarkList lists")

// BenchmarkList lists the ids of entities in a JetStream store, of which few are active.
func BenchmarkList(b *testing.B) {
	server := natsproc.Start(b, "-js", "-sd", b.TempDir())
	store, err := natsstore.Open(b.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	node := shard.New(shard.Config{
		Cluster: "lists", Name: "node", Transport: natstransport.New(server.URL()), Store: store,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	client := vault.NewVaultClient(node)
	if err := vault.HostVault(node, func() *vault.Vault { return &vault.Vault{} }, shard.IdleAfter(time.Second)); err != nil {
		b.Fatal(err)
	}
	if err := node.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 4096 {
		callers.Go(func() {
			for n := next.Add(1); n <= int64(*listed); n = next.Add(1) {
				if _, err := client.Ref("entity-"+strconv.FormatInt(n, 10)).Add(b.Context(), 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	first, most := time.Duration(0), uint64(0)
	for b.Loop() {
		n, begun := 0, time.Now()
		for _, err := range client.List(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == 1 {
				first += time.Since(begun)
			}
			if n%(*listed/4) == 0 {
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				most = max(most, after.HeapAlloc)
				b.StartTimer()
			}
		}
		if n != *listed {
			b.Fatalf("%d ids, want %d", n, *listed)
		}
	}
	b.ReportMetric(first.Seconds()*1000/float64(b.N), "ms-to-first")
	b.ReportMetric(float64(b.N)*float64(*listed)/b.Elapsed().Seconds(), "ids/s")
	if most > 0 {
		b.ReportMetric(float64(int64(most)-int64(before.HeapAlloc))/(1<<20), "MiB-more")
	}
}

// BenchmarkFind finds ten of the tickets in a JetStream store by their points, and then among all of
// them those between two values.
func BenchmarkFind(b *testing.B) {
	server := natsproc.Start(b, "-js", "-sd", b.TempDir())
	store, err := natsstore.Open(b.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	node := shard.New(shard.Config{
		Cluster: "finds", Name: "node", Transport: natstransport.New(server.URL()), Store: store,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	client := vault.NewTicketClient(node)
	if err := vault.HostTicket(node, func() *vault.Ticket { return &vault.Ticket{} }, shard.IdleAfter(time.Second)); err != nil {
		b.Fatal(err)
	}
	if err := node.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 4096 {
		callers.Go(func() {
			for n := next.Add(1); n <= int64(*listed); n = next.Add(1) {
				if err := client.Ref("ticket-"+strconv.FormatInt(n, 10)).Set(b.Context(), vault.Open, int32(n/10), time.Unix(n, 0), false); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	for name, find := range map[string]func(at int) iter.Seq2[string, error]{
		"value": func(at int) iter.Seq2[string, error] { return client.FindByPoints(b.Context(), int32(at/10)) },
		"between": func(at int) iter.Seq2[string, error] {
			return client.FindByDueBetween(b.Context(), time.Unix(int64(at/10*10), 0), time.Unix(int64(at/10*10+10), 0))
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for at := 10; b.Loop(); at = 10 + at*7919%(*listed-20) {
				n, begun := 0, time.Now()
				for _, err := range find(at) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if took = append(took, time.Since(begun)); n != 10 {
					b.Fatalf("%d tickets, want 10", n)
				}
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50")
		})
	}
}
