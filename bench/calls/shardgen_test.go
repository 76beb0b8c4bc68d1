package calls

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func config(name string) shard.Config {
	return shard.Config{
		Cluster: "bench", Name: name, Transport: natstransport.New(serverURL),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// startNode starts a member that hosts accounts.
func startNode(tb testing.TB, name string, opts ...shard.HostOption) *shard.Node {
	tb.Helper()
	return startNodeWith(tb, config(name), opts...)
}

func startNodeWith(tb testing.TB, cfg shard.Config, opts ...shard.HostOption) *shard.Node {
	tb.Helper()
	node := shard.New(cfg)
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

// benchmarkShardgenLocal calls entities that live in the caller's process: Add
// has scalars only, Echo's payload is copied on its way in and out.
func benchmarkShardgenLocal(b *testing.B) {
	node := startNode(b, "node")
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
	b.Run("add/byID/each", func(b *testing.B) {
		client, ids := fixture.NewAccountClient(node), ids()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := client.Ref(ids[i%localEntities]).Add(ctx, 1); err != nil {
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
	b.Run("add/byID/10000", func(b *testing.B) {
		refs := references(b, node, 10_000)
		client, ids := fixture.NewAccountClient(node), make([]string, len(refs))
		for i := range ids {
			ids[i] = "entity-" + strconv.Itoa(i)
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := uint32(0); pb.Next(); i++ {
				if _, err := client.Ref(ids[i*2654435761%10_000]).Add(ctx, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
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
	b.Run("add/header", func(b *testing.B) {
		b.ReportAllocs()
		ctx, err := shard.WithHeader(ctx, "tenant", "acme")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := refs[0].Add(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
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

// benchmarkIntercepted calls entities that live in the caller's process, with an interceptor that
// does nothing, at the host or at the caller.
func benchmarkIntercepted(b *testing.B) {
	atCaller := config("node")
	atCaller.Interceptors = []shard.Interceptor{goOn}
	for name, start := range map[string]func() *shard.Node{
		"host":   func() *shard.Node { return startNode(b, "node", shard.Intercept(goOn)) },
		"caller": func() *shard.Node { return startNodeWith(b, atCaller) },
		"none":   func() *shard.Node { return startNode(b, "node") },
	} {
		b.Run(name, func(b *testing.B) {
			node := start()
			defer func() { _ = node.Close() }()
			ref := references(b, node, 1)[0]
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ref.Add(context.Background(), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchmarkShardgenRemote calls entities in another member, from outside.
func benchmarkShardgenRemote(b *testing.B) {
	node, conn := startNode(b, "node"), dial(b)
	refs := references(b, conn, localEntities)
	b.Cleanup(func() {
		b.Log("sent by caller and node:", conn.Counters()["frames sent"], node.Counters()["frames sent"])
	})
	var next atomic.Int64
	ctx := context.Background()
	eachLoad(b, func(payload []byte) error {
		_, err := refs[next.Add(1)%localEntities].Echo(ctx, payload)
		return err
	})
}

// benchmarkShardgenTell tells entities in another member, from outside; the time
// ends when the last one has run.
func benchmarkShardgenTell(b *testing.B) {
	startNode(b, "node")
	told := newTold(b, dial(b), 4096)
	eachLoad(b, told.echo)
	told.settle(b)
}

// benchmarkShardgenLocalTell tells entities of the caller's process.
func benchmarkShardgenLocalTell(b *testing.B) {
	told := newTold(b, startNode(b, "node"), 256)
	eachLoad(b, told.echo)
	told.settle(b)
}

// benchmarkShardgenTellOne has one sender tell one entity of its process. The time ends when the last
// tell has run.
func benchmarkShardgenTellOne(b *testing.B) {
	node := startNode(b, "node")
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

// told keeps a window of tells under way: every so often it asks an entity of
// each shard in turn, which the tells before have passed by then.
type told struct {
	refs  []fixture.AccountRef
	tells []fixture.AccountTell
	// askEvery is how many tells go between two calls that wait for them: few where a
	// mailbox is what fills up, many where it is a path.
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

// refused is who tries again: one at a time, for many would take the time that what is
// under way needs.
var refused sync.Mutex

// taken sends until it is not refused because so much is under way.
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

// settle waits until everything told has run.
func (t *told) settle(tb testing.TB) {
	tb.Helper()
	for _, r := range t.refs {
		if _, err := r.Get(context.Background()); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkIdleShardgen tells the bytes that an idle entity costs, the user's
// struct, its id and the state included.
func BenchmarkIdleShardgen(b *testing.B) {
	client := fixture.NewAccountClient(startNode(b, "node"))
	ctx := context.Background()
	idleBytes(b, func(id string) {
		if _, err := client.Ref(id).Add(ctx, 1); err != nil {
			b.Fatal(err)
		}
	})
}

// benchmarkShardgenLocalAdd tells 10,000 entities of the caller's process, a number
// each, from as many goroutines as there are processors.
func benchmarkShardgenLocalAdd(b *testing.B) {
	const entities, askEvery = 10_000, 1024
	node := startNode(b, "node")
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
