package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// resting passivates a million idle entities at once, with and without a stop hook, and compares
// other calls before and meanwhile. The garbage collector runs just before. Otherwise it would
// alone decide the p99 of two seconds: on two processors a cycle takes 0.2 s and delays calls
// 25 ms.
func resting(ctx context.Context, s settings, url string) error {
	const idle = 30 * time.Second
	for _, hooked := range []bool{false, true} {
		name := "resting" + strconv.FormatBool(hooked)
		node := shard.New(process.Config(url, name, "node"))
		if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, shard.IdleAfter(idle)); err != nil {
			return err
		}
		if err := fixture.HostCashier(node, func() *fixture.Cashier { return &fixture.Cashier{} }, shard.IdleAfter(idle)); err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
		conn, err := shard.Dial(ctx, process.Config(url, name, "outside"))
		if err == nil {
			err = rest(ctx, s, node, conn, hooked, idle)
			_ = conn.Close()
		}
		_ = node.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func rest(ctx context.Context, s settings, node *shard.Node, conn *shard.Conn, hooked bool, idle time.Duration) error {
	accounts, cashiers := fixture.NewAccountClient(node), fixture.NewCashierClient(node)
	touch := func(i int) (err error) {
		if hooked {
			_, err = accounts.Ref(id(i)).Get(ctx)
		} else {
			_, err = cashiers.Ref(id(i)).Read(ctx)
		}
		return err
	}
	for range 2 { // the first round creates the entities; the second uses each within a second or two
		for i := range s.entities {
			if err := touch(i); err != nil {
				return err
			}
		}
	}
	last := time.Now()
	runtime.GC()
	near, far := newPaced(), newPaced()
	var calls sync.WaitGroup
	calling, stop := context.WithCancel(ctx)
	defer calls.Wait()
	defer stop()
	calls.Go(func() { near.run(calling, fixture.NewAccountClient(node)) })
	calls.Go(func() { far.run(calling, fixture.NewAccountClient(conn)) })

	rested := func() int { return int(node.Counters()["entity passivated"]) }
	time.Sleep(time.Until(last.Add(idle - 3*time.Second)))
	runtime.GC()
	before := rested()
	var begins time.Time
	for rested()-before < s.entities {
		if begins.IsZero() && rested() > before {
			begins = time.Now()
		}
		if time.Since(last) > idle+5*time.Minute {
			return fmt.Errorf("passivate: %d of %d entities are passivated after %v", rested()-before, s.entities, time.Since(last))
		}
		time.Sleep(10 * time.Millisecond)
	}
	ends := time.Now()
	stop()
	calls.Wait()
	with := map[bool]string{true: "with", false: "without"}[hooked]
	fmt.Printf("| %d idle entities %s a stop hook at rest, from when the last may | %.1f s | | ≤ 10 s |\n",
		s.entities, with, ends.Sub(last.Add(idle)).Seconds())
	for _, c := range []struct {
		name string
		*paced
	}{{"from the same process", near}, {"from outside", far}} {
		g := group{[]contestant{
			{"shardgen", func(time.Duration) (measure, error) { return c.between(begins, ends), c.err }},
			{"before", func(time.Duration) (measure, error) { return c.between(last.Add(time.Second), begins), c.err }},
		}, []row{{
			title: "p99 of 1,000 calls a second " + c.name + " meanwhile", unit: "µs", figure: p99, less: true, target: "≥ 0.5× before",
		}}}
		if err := g.print(os.Stdout, 1, 0); err != nil {
			return err
		}
	}
	return nil
}

func memory(ctx context.Context, s settings, url string) error {
	run := func(time.Duration) (measure, error) {
		node, err := process.Member(ctx, process.Config(url, "memory"+strconv.Itoa(os.Getpid()), "node"))
		if err != nil {
			return measure{}, err
		}
		defer func() { _ = node.Close() }()
		client := fixture.NewAccountClient(node)
		before, routines := inUse(), runtime.NumGoroutine()
		for i := range s.entities {
			if _, err := client.Ref(id(i)).Add(ctx, 1); err != nil {
				return measure{}, err
			}
		}
		if now := runtime.NumGoroutine(); now > routines+16 {
			return measure{}, errors.New("measure idle entities: they have goroutines, want none")
		}
		const own = 80 + 16 // the size class of the fixture's struct, and the id's bytes
		return measure{Value: float64(inUse()-before)/float64(s.entities) - own}, nil
	}
	g := group{[]contestant{{"shardgen", run}}, []row{{
		title: "idle entity, of " + strconv.Itoa(s.entities) + ", beside its struct and id", unit: "B", figure: value, target: "≤ 256 B",
	}}}
	return g.print(os.Stdout, 1, 0)
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// paced makes calls at a fixed rate, whether or not earlier ones are answered.
type paced struct {
	mu   sync.Mutex
	took []sample
	err  error
}

type sample struct {
	due  time.Time
	took time.Duration
}

func newPaced() *paced { return &paced{} }

func (p *paced) run(ctx context.Context, accounts *fixture.AccountClient) {
	const hot = 1000
	var calls sync.WaitGroup
	defer calls.Wait()
	begin := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		due := begin.Add(time.Duration(i) * time.Millisecond)
		time.Sleep(time.Until(due))
		calls.Go(func() {
			_, err := accounts.Ref("hot-"+strconv.Itoa(i%hot)).Add(context.WithoutCancel(ctx), 1)
			took := time.Since(due)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.took = append(p.took, sample{due, took})
			if p.err == nil {
				p.err = err
			}
		})
	}
}

func (p *paced) between(from, to time.Time) (m measure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var took []time.Duration
	for _, s := range p.took {
		if s.due.After(from) && s.due.Before(to) {
			took = append(took, s.took)
		}
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		m.P50, m.P99 = took[n/2], took[n*99/100]
	}
	return m
}
