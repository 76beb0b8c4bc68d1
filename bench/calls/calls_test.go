// Package calls measures the costs of calls and idle entities, with their allocations.
//
//	go test -C bench -run '^$' -bench . ./calls
//
// The benchmarks of remote calls run over a nats-server process of their own on the loopback
// interface. Caller and answerer are two connections of the benchmark's process, so allocs/op
// counts both sides. The benchmarks of durable calls have a store in memory that acknowledges at once.
// A figure for many callers is the time per call at full load, not the latency of one. cmd/table
// compares the same paths with their limits.
package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// serverURL is the URL of the nats-server process that all benchmarks share.
var serverURL string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	server, err := natsproc.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	serverURL = server.URL()
	code := m.Run()
	if err := server.Kill(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// payloads are the sizes of arguments in all benchmarks; answers are as large.
var payloads = []struct {
	name  string
	bytes int
}{
	{"64B", 64},
	{"1KiB", 1024},
}

// manyCallers is the number of goroutines that call at once in loaded benchmarks.
const manyCallers = 256

// callerCounts are the loads of the remote benchmarks.
var callerCounts = []int{1, manyCallers}

// eachPayload runs f for each payload as a sub-benchmark that counts its bytes.
func eachPayload(b *testing.B, f func(b *testing.B, payload []byte)) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, make([]byte, p.bytes))
		})
	}
}

// eachLoad runs call from one goroutine and then from many.
func eachLoad(b *testing.B, call func(payload []byte) error) {
	for _, callers := range callerCounts {
		name := "1caller"
		if callers > 1 {
			name = strconv.Itoa(callers) + "callers"
		}
		b.Run(name, func(b *testing.B) {
			eachPayload(b, func(b *testing.B, payload []byte) {
				if callers == 1 {
					for b.Loop() {
						if err := call(payload); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				fromMany(b, callers, func() error { return call(payload) })
			})
		})
	}
}

// cpuTime is the processor time that this process has used, in nanoseconds.
func cpuTime() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// fromMany spreads b.N calls over goroutines, because b.Loop works in one goroutine only.
func fromMany(b *testing.B, callers int, call func() error) {
	before := cpuTime()
	defer func() { b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") }()
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAsk calls 1,000 entities.
func BenchmarkAsk(b *testing.B) {
	b.Run("local", benchmarkLocalAsk)
	b.Run("local/intercepted", benchmarkIntercepted)
	b.Run("remote", benchmarkRemoteAsk)
}

// BenchmarkTell measures one-way calls.
func BenchmarkTell(b *testing.B) {
	b.Run("remote", benchmarkRemoteTell)
	b.Run("local", benchmarkLocalTell)
	b.Run("local/add", benchmarkLocalAdd)
	b.Run("local/one", benchmarkTellOne)
}

const localEntities = 1000

func config(name string) shard.Config {
	return shard.Config{
		Cluster: "bench", Name: name, Transport: natstransport.New(serverURL),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// startNode starts a member that hosts accounts.
func startNode(tb testing.TB, opts ...shard.HostOption) *shard.Node {
	tb.Helper()
	node := shard.New(config("node"))
	if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, opts...); err != nil {
		tb.Fatal(err)
	}
	if err := node.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = node.Close() })
	return node
}

func dial(tb testing.TB) *shard.Conn {
	tb.Helper()
	conn, err := shard.Dial(context.Background(), config("caller"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// references returns one reference to each of the entities, all called once.
func references(tb testing.TB, c shard.Caller, n int) []fixture.AccountRef {
	tb.Helper()
	client := fixture.NewAccountClient(c)
	refs := make([]fixture.AccountRef, n)
	for i := range refs {
		refs[i] = client.Ref("entity-" + strconv.Itoa(i))
		if _, err := refs[i].Add(context.Background(), 1); err != nil {
			tb.Fatal(err)
		}
	}
	return refs
}

// benchmarkLocalAsk calls entities that live in the caller's process: Add
// has scalars only, Echo's payload is copied on its way in and out.
func benchmarkLocalAsk(b *testing.B) {
	node := startNode(b)
	refs := references(b, node, localEntities)
	ctx := context.Background()
	b.Run("add/one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := refs[0].Add(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("add/each", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := refs[i%localEntities].Add(ctx, 1); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("add/byID/one", func(b *testing.B) {
		client := fixture.NewAccountClient(node)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.Ref("entity-0").Add(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("add/256callers", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(manyCallers / 2)
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, err := refs[i%localEntities].Add(ctx, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	eachPayload(b, func(b *testing.B, payload []byte) {
		i := 0
		for b.Loop() {
			if _, err := refs[i%localEntities].Echo(ctx, payload); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func goOn(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
	return next(ctx)
}

// benchmarkIntercepted calls an entity that lives in the caller's process, with an interceptor at its
// host that does nothing.
func benchmarkIntercepted(b *testing.B) {
	ref := references(b, startNode(b, shard.Intercept(goOn)), 1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ref.Add(context.Background(), 1); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkRemoteAsk calls entities in another member, from outside.
func benchmarkRemoteAsk(b *testing.B) {
	startNode(b)
	refs := references(b, dial(b), localEntities)
	var next atomic.Int64
	ctx := context.Background()
	eachLoad(b, func(payload []byte) error {
		_, err := refs[next.Add(1)%localEntities].Echo(ctx, payload)
		return err
	})
}

// benchmarkRemoteTell sends tells to entities in another member, from outside the cluster. The
// measured time ends when the last tell has run.
func benchmarkRemoteTell(b *testing.B) {
	startNode(b)
	told := newTold(b, dial(b), 4096)
	eachLoad(b, told.echo)
	told.settle(b)
}

// benchmarkLocalTell sends tells to entities of the caller's process.
func benchmarkLocalTell(b *testing.B) {
	told := newTold(b, startNode(b), 256)
	eachLoad(b, told.echo)
	told.settle(b)
}

// benchmarkTellOne measures tells of one sender to one entity of its process. The measured time
// ends when the last tell has run.
func benchmarkTellOne(b *testing.B) {
	node := startNode(b)
	ref, ctx := references(b, node, 1)[0], context.Background()
	tell := fixture.NewAccountClient(node).Tell("entity-0")
	before := cpuTime()
	b.ReportAllocs()
	for b.Loop() {
		if err := taken(func() error { return tell.Add(ctx, 1) }); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := ref.Get(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

// told bounds the tells under way: one call in askEvery is an ask, of changing entities. Its answer
// shows that the earlier tells to that entity have run.
type told struct {
	refs  []fixture.AccountRef
	tells []fixture.AccountTell
	// askEvery is the number of calls of which one is an ask. It is small where one mailbox gets
	// all tells, and large where tells wait on the way to another process.
	askEvery int64
	next     atomic.Int64
}

func newTold(tb testing.TB, c shard.Caller, askEvery int64) *told {
	tb.Helper()
	t := &told{refs: references(tb, c, localEntities), askEvery: askEvery}
	client := fixture.NewAccountClient(c)
	for i := range localEntities {
		t.tells = append(t.tells, client.Tell("entity-"+strconv.Itoa(i)))
	}
	return t
}

func (t *told) echo(payload []byte) error {
	i := t.next.Add(1)
	send := func() error { return t.tells[i%localEntities].Echo(context.Background(), payload) }
	if i%t.askEvery == 0 {
		send = func() error {
			_, err := t.refs[i%localEntities].Echo(context.Background(), payload)
			return err
		}
	}
	return taken(send)
}

// refused lets only one refused sender retry at a time. Many retrying senders would take the
// processor time that running tells need.
var refused sync.Mutex

// taken repeats send while it is refused because of overload.
func taken(send func() error) error {
	err := send()
	if !errors.Is(err, shard.ErrOverloaded) {
		return err
	}
	refused.Lock()
	defer refused.Unlock()
	for errors.Is(err, shard.ErrOverloaded) {
		runtime.Gosched()
		err = send()
	}
	return err
}

// settle waits until all tells have run.
func (t *told) settle(tb testing.TB) {
	tb.Helper()
	for _, r := range t.refs {
		if _, err := r.Get(context.Background()); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkIdle reports the bytes of memory that an idle entity takes, including the user's struct,
// the id and the state. ns/op is the time to make one entity.
func BenchmarkIdle(b *testing.B) {
	client := fixture.NewAccountClient(startNode(b))
	before, n := memoryInUse(), 0
	for b.Loop() {
		if _, err := client.Ref("entity-"+strconv.Itoa(n)).Add(context.Background(), 1); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(memoryInUse()-before)/float64(n), "B/entity")
}

func memoryInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// benchmarkLocalAdd sends tells with a number to 10,000 entities of the caller's process, from as
// many goroutines as there are processors.
func benchmarkLocalAdd(b *testing.B) {
	const entities, askEvery = 10_000, 1024
	node := startNode(b)
	refs, ctx := references(b, node, entities), context.Background()
	tells := make([]fixture.AccountTell, entities)
	for i := range tells {
		tells[i] = fixture.NewAccountClient(node).Tell("entity-" + strconv.Itoa(i))
	}
	b.ReportAllocs()
	var worker atomic.Uint32
	before := cpuTime()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		w := worker.Add(1) * 7919
		for i := uint32(0); pb.Next(); i++ {
			n := (w + i) * 2654435761 % entities
			if i%askEvery == 0 {
				if _, err := refs[n].Get(ctx); err != nil {
					b.Error(err)
				}
				continue
			}
			if err := taken(func() error { return tells[n].Add(ctx, 1) }); err != nil {
				b.Error(err)
				return
			}
		}
	})
	(&told{refs: refs}).settle(b)
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}
