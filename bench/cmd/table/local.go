package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

const entities = 10_000

const callers = 256

func id(i int) string { return "entity-" + strconv.Itoa(i) }

// plain is a hand-written entity: a struct in a map, with a mutex.
type plain struct {
	mu      sync.Mutex
	balance int64
}

// local compares calls in one process with structs in a map, with mutexes.
func local(ctx context.Context, s settings, url string) error {
	node, err := process.Member(ctx, process.Config(url, "local", "node"))
	if err != nil {
		return err
	}
	defer func() { _ = node.Close() }()
	client := fixture.NewAccountClient(node)
	refs := make([]fixture.AccountRef, entities)
	tells := make([]fixture.AccountTell, entities)
	var lock sync.RWMutex
	hand := map[string]*plain{}
	ids := make([]string, entities)
	for i := range refs {
		ids[i] = id(i)
		refs[i], tells[i], hand[ids[i]] = client.Ref(ids[i]), client.Tell(ids[i]), &plain{}
		if _, err := refs[i].Add(ctx, 1); err != nil {
			return err
		}
	}
	add := func(which func(w, i int) int, n int) []contestant {
		return []contestant{
			{"shardgen", func(d time.Duration) (measure, error) {
				return load.Bulk(n, d, func(w, i int) error {
					_, err := refs[which(w, i)].Add(ctx, 1)
					return err
				})
			}},
			{"mutex", func(d time.Duration) (measure, error) {
				return load.Bulk(n, d, func(w, i int) error {
					lock.RLock()
					e := hand[ids[which(w, i)]]
					lock.RUnlock()
					e.mu.Lock()
					e.balance++
					e.mu.Unlock()
					return nil
				})
			}},
		}
	}
	cpuRow := row{title: "its processor time", unit: "ns", figure: cpu, less: true}
	one := func(int, int) int { return 0 }
	each := func(w, i int) int { return load.Pick(w, i, entities) }
	groups := []group{
		{add(one, 1), []row{{title: "local call, one entity", unit: "ns", figure: nanos, less: true, target: "≤ 100 ns where the mutex takes 12"}, cpuRow}},
		{add(each, 1), []row{{title: "local call, 10,000 entities", unit: "ns", figure: nanos, less: true, target: "≤ 180 ns"}, cpuRow}},
		{add(each, callers), []row{{title: "local calls, 256 callers", unit: "/s", figure: perSecond, target: "≥ 10 M/s where the mutex makes 64 M/s"}, cpuRow}},
		{[]contestant{
			{"shardgen", func(d time.Duration) (measure, error) { return tellAll(ctx, d, 1024, refs, tells) }},
			{"channel", func(d time.Duration) (measure, error) { return channelTells(d) }},
		}, []row{{title: "local tells, 10,000 entities", unit: "/s", figure: perSecond, target: "≥ 8 M/s where the channel makes 11.6 M/s"}, cpuRow}},
	}
	nothing := func(ctx context.Context, _ shard.Info, next func(context.Context) error) error { return next(ctx) }
	intercepted, err := process.Member(ctx, process.Config(url, "intercepted", "node"), shard.Intercept(nothing))
	if err != nil {
		return err
	}
	defer func() { _ = intercepted.Close() }()
	guarded := fixture.NewAccountClient(intercepted).Ref(ids[0])
	groups = append(groups, group{[]contestant{
		{"shardgen", func(d time.Duration) (measure, error) {
			return load.Bulk(1, d, func(int, int) error {
				_, err := guarded.Add(ctx, 1)
				return err
			})
		}},
		{"without", add(one, 1)[0].run},
	}, []row{{title: "local call, an interceptor at its host", unit: "ns", figure: nanos, less: true}, cpuRow}})
	for _, g := range groups {
		if err := g.print(os.Stdout, s.rounds, s.time); err != nil {
			return err
		}
	}
	return nil
}

// tellAll sends tells from one goroutine for each processor. One ask in askEvery calls bounds the
// tells under way. The measured time ends when all tells have run.
func tellAll(ctx context.Context, d time.Duration, askEvery int, refs []fixture.AccountRef, tells []fixture.AccountTell) (measure, error) {
	begin := time.Now()
	m, err := load.Bulk(runtime.GOMAXPROCS(0), d, func(w, i int) error {
		n := load.Pick(w, i, len(tells))
		if i%askEvery == 0 {
			_, err := refs[n].Get(ctx)
			return err
		}
		for {
			err := tells[n].Add(ctx, 1)
			if !errors.Is(err, shard.ErrOverloaded) {
				return err
			}
			runtime.Gosched()
		}
	})
	if err != nil {
		return m, err
	}
	told := m.PerSecond * d.Seconds()
	for _, r := range refs { // each answers after its tells
		if _, err := r.Get(ctx); err != nil {
			return m, err
		}
	}
	m.PerSecond = told / time.Since(begin).Seconds()
	return m, nil
}

func channelTells(d time.Duration) (measure, error) {
	mailbox := make(chan int64, 1024)
	var owner sync.WaitGroup
	owner.Go(func() {
		var balance int64
		for n := range mailbox {
			balance += n
		}
	})
	defer owner.Wait()
	defer close(mailbox)
	return load.Bulk(1, d, func(int, int) error {
		mailbox <- 1
		return nil
	})
}

func references(c shard.Caller, n int) ([]fixture.AccountRef, error) {
	client := fixture.NewAccountClient(c)
	refs := make([]fixture.AccountRef, n)
	for i := range refs {
		refs[i] = client.Ref(id(i))
	}
	return refs, callEach(refs, nil)
}

func callEach[E echoer](refs []E, payload []byte) error {
	next := make(chan int, len(refs))
	for i := range refs {
		next <- i
	}
	close(next)
	errs := make(chan error, callers)
	for range callers {
		go func() {
			for i := range next {
				if _, err := refs[i].Echo(context.Background(), payload); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range callers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

type echoer interface {
	Echo(ctx context.Context, payload []byte) ([]byte, error)
}

// echo calls random entities from n callers. Their context never ends: the compared code has no
// contexts. Config.CallTimeout bounds each call.
func echo[E echoer](refs []E, n int, payload []byte) func(time.Duration) (measure, error) {
	return func(d time.Duration) (measure, error) {
		return load.Run(n, d, func(w, i int) error {
			_, err := refs[load.Pick(w, i, len(refs))].Echo(context.Background(), payload)
			return err
		})
	}
}
