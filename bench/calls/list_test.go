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

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/util/tasks"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/measure"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

var listed = flag.Int("ids", 20_000, "how many entities BenchmarkList, BenchmarkFind and BenchmarkReminders have")

// filled starts a node over a JetStream store, and calls fill once for each number up to -ids.
func filled(b *testing.B, cluster string, host func(*shard.Node) error, fill func(n int64) error) *shard.Node {
	server := natsproc.Start(b, "-js", "-sd", b.TempDir())
	store, err := natsstore.Open(b.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	node := shard.New(shard.Config{
		Cluster: cluster, Name: "node", Transport: natstransport.New(server.URL()), Store: store,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err := host(node); err != nil {
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
				if err := fill(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	if callers.Wait(); b.Failed() {
		b.FailNow()
	}
	return node
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkList lists the ids of entities in a JetStream store, of which few are active.
func BenchmarkList(b *testing.B) {
	var client *bank.WalletClient
	filled(b, "lists", func(node *shard.Node) error {
		client = bank.NewWalletClient(node)
		return bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }, shard.IdleAfter(time.Second))
	}, func(n int64) error {
		_, err := client.Ref("entity-"+strconv.FormatInt(n, 10)).Add(b.Context(), 1)
		return err
	})
	before := heap()
	first, most := time.Duration(0), int64(0)
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
				most = max(most, heap())
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
		b.ReportMetric(float64(most-before)/(1<<20), "MiB-more")
	}
}

// BenchmarkFind finds ten of the tickets in a JetStream store: by the value of their points, and by
// two bounds of their due times.
func BenchmarkFind(b *testing.B) {
	var client *bank.TicketClient
	filled(b, "finds", func(node *shard.Node) error {
		client = bank.NewTicketClient(node)
		return bank.HostTicket(node, func() *bank.Ticket { return &bank.Ticket{} }, shard.IdleAfter(time.Second))
	}, func(n int64) error {
		return client.Ref("ticket-"+strconv.FormatInt(n, 10)).Set(b.Context(), bank.Open, int32(n/10), time.Unix(n, 0), false)
	})
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

// BenchmarkReminders lets one reminder of each entity be due in the same second. Meanwhile, and in
// the ten seconds before, it calls other entities. It runs once, whatever -benchtime says.
func BenchmarkReminders(b *testing.B) {
	var client *bank.AlarmClient
	var others *bank.WalletClient
	var fired atomic.Int64
	var latest atomic.Int64
	before := int64(0)
	due := time.Now().Add(time.Minute + time.Duration(*listed)*time.Second/4000)
	node := filled(b, "reminders", func(node *shard.Node) error {
		before = heap()
		client, others = bank.NewAlarmClient(node), bank.NewWalletClient(node)
		if err := bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }); err != nil {
			return err
		}
		return bank.HostAlarm(node, func() *bank.Alarm { return &bank.Alarm{} }, shard.IdleAfter(time.Second))
	}, func(n int64) error {
		at := due.Add(time.Duration(n%1000) * time.Millisecond)
		return client.Tell("alarm-"+strconv.FormatInt(n, 10), shard.At(at)).Ring(b.Context(), "x")
	})
	stop := node.Measure(measure.Meter{ReminderFired: func(_ string, late time.Duration) {
		fired.Add(1)
		for old := latest.Load(); int64(late) > old && !latest.CompareAndSwap(old, int64(late)); old = latest.Load() {
		}
	}})
	defer stop()
	calls := func(done func() bool) time.Duration {
		var mu sync.Mutex
		var took []time.Duration
		var callers sync.WaitGroup
		for n := range 8 {
			callers.Go(func() {
				for !done() {
					begun := time.Now()
					if _, err := others.Ref("other-"+strconv.Itoa(n)).Add(b.Context(), 1); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(begun))
					mu.Unlock()
					tasks.Rest(b.Context(), 5*time.Millisecond)
				}
			})
		}
		callers.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	if left := time.Until(due); left < 20*time.Second {
		b.Fatalf("%v are left until the reminders are due, want at least 20s", left)
	}
	tasks.Rest(b.Context(), time.Until(due.Add(-15*time.Second)))
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-pending")
	ends := due.Add(-time.Second)
	quiet := calls(func() bool { return time.Now().After(ends) })
	tasks.Rest(b.Context(), time.Until(due))
	busy := calls(func() bool { return fired.Load() >= int64(*listed) || time.Since(due) > 10*time.Minute })
	if n := fired.Load(); n != int64(*listed) {
		b.Errorf("%d reminders have run, want %d", n, *listed)
	}
	b.ReportMetric(quiet.Seconds()*1000, "ms-p99-quiet")
	b.ReportMetric(busy.Seconds()*1000, "ms-p99-due")
	b.ReportMetric(float64(*listed)/time.Since(due).Seconds(), "reminders/s")
	b.ReportMetric(time.Duration(latest.Load()).Seconds(), "s-late-max")
}
