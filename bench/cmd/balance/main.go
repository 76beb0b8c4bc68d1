// Command balance measures how evenly members use their processors. It runs two clusters of five
// processes each at the same time, with the same calls: one places shards by LeastShards, the other
// by LoadWeighted. Call rates follow a Zipf law of 1.1. Every 10 s a share of the entities swaps
// ranks with others; one swap in ten involves one of the hundred most called. Every 10 s the
// command prints the busiest member's processor use as a multiple of the mean. In the end it prints
// the mean and p99 of these multiples, without the first minutes, in which no shard moves.
//
//	go run -C bench ./cmd/balance -for 21m
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
)

const (
	workers  = 5
	entities = 2_000
	law      = 1.1
	// capacity is a worker's, in processors: all ten workers together use about half a processor.
	capacity = 0.1
	// resting is the time at the beginning in which no shard moves. Its figures do not count in the
	// end.
	resting = 5*time.Minute + 30*time.Second
)

var allocations = []shard.Strategy{shard.LeastShards{}, shard.LoadWeighted{}}

func main() {
	lasts := flag.Duration("for", 21*time.Minute, "`time` to measure")
	rate := flag.Int("rate", 300, "calls a second of each cluster")
	drift := flag.Float64("drift", 0.0005, "`share` of the entities that change their ranks every 10 s")
	url := flag.String("worker", "", "run a worker of the cluster at this NATS server, in place of all")
	name := flag.String("name", "", "of the worker")
	allocation := flag.Int("allocation", 0, "of the worker: its place in the list")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := error(nil)
	if *url != "" {
		err = worker(ctx, *url, *name, *allocation)
	} else {
		err = measure(ctx, *lasts, *rate, *drift)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "balance:", err)
		os.Exit(1)
	}
}

// work takes about 400 µs of processor time.
func work() (x float64) {
	for i := range 120_000 {
		x += math.Sqrt(float64(i))
	}
	return x
}

var sink atomic.Uint64

// worker runs a member. It answers each line with the processors used by the member, and the number
// of committed moves.
func worker(ctx context.Context, url, name string, allocation int) error {
	cfg := process.Config(url, "balance"+strconv.Itoa(allocation), name)
	cfg.Capacity = capacity
	node, err := process.Member(ctx, cfg, shard.Allocation(allocations[allocation]),
		shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
			sink.Store(math.Float64bits(work()))
			return next(ctx)
		}))
	if err != nil {
		return err
	}
	fmt.Println("up")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		l := node.Load()
		fmt.Println(l.Process.Used, l.Types[0].MovesCommitted)
	}
	return node.Close()
}

type cluster struct {
	children []*process.Child
	conn     *shard.Conn
	refs     []fixture.AccountRef
	highest  []float64 // high/mean of look, while shards move
}

func measure(ctx context.Context, lasts time.Duration, rate int, drift float64) error {
	server, err := natsproc.Run()
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	var clusters []*cluster
	for i := range allocations {
		c := &cluster{}
		clusters = append(clusters, c)
		for n := range workers {
			child, _, err := process.Spawn(ctx, "-worker", server.URL(), "-name", fmt.Sprintf("web-%d", n+1), "-allocation", strconv.Itoa(i))
			if err != nil {
				return err
			}
			defer func() { _ = child.Kill() }()
			c.children = append(c.children, child)
		}
		if c.conn, err = shard.Dial(ctx, process.Config(server.URL(), "balance"+strconv.Itoa(i), "caller")); err != nil {
			return err
		}
		client := fixture.NewAccountClient(c.conn)
		for e := range entities {
			c.refs = append(c.refs, client.Ref("entity-"+strconv.Itoa(e)))
		}
	}
	var failed, late atomic.Int64
	go call(ctx, clusters, rate, drift, &failed, &late)
	began := time.Now()
	for time.Since(began) < lasts {
		time.Sleep(10 * time.Second)
		line := fmt.Sprintf("%4.0f s", time.Since(began).Seconds())
		for i, c := range clusters {
			high, mean, moved, err := c.look()
			if err != nil {
				return err
			}
			if time.Since(began) > resting {
				c.highest = append(c.highest, high/mean)
			}
			line += fmt.Sprintf("  %v: highest %.2f of mean %.3f, %d moves", allocations[i], high/mean, mean, moved)
		}
		fmt.Println(line)
	}
	for i, c := range clusters {
		slices.Sort(c.highest)
		sum := 0.0
		for _, h := range c.highest {
			sum += h
		}
		if n := len(c.highest); n > 0 {
			fmt.Printf("%v: highest %.2f of mean, p99 %.2f, in %d rounds\n", allocations[i], sum/float64(n), c.highest[n*99/100], n)
		}
	}
	fmt.Printf("%d calls have failed, %d were left out because too many were under way\n", failed.Load(), late.Load())
	return nil
}

// look returns the busiest worker's processor use, the workers' mean, and the moves so far.
func (c *cluster) look() (high, mean float64, moved int, err error) {
	for _, child := range c.children {
		answer, err := child.Do("load")
		if err != nil {
			return 0, 0, 0, err
		}
		fields := strings.Fields(answer)
		used, _ := strconv.ParseFloat(fields[0], 64)
		n, _ := strconv.Atoi(fields[1])
		high, mean, moved = max(high, used), mean+used/workers, moved+n
	}
	return high, mean, moved, nil
}

// call makes rate calls a second in each cluster until ctx ends.
func call(ctx context.Context, clusters []*cluster, rate int, drift float64, failed, late *atomic.Int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	var sums []float64
	total := 0.0
	for rank := range entities {
		total += 1 / math.Pow(float64(rank+1), law)
		sums = append(sums, total)
	}
	ranks := make([]int, entities) // the entities, the most called one first
	for i := range ranks {
		ranks[i] = i
	}
	drifted := time.Now()
	under := make(chan struct{}, 1000)
	for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		if time.Since(drifted) >= 10*time.Second {
			drifted = time.Now()
			for range int(math.Round(drift * entities)) {
				a, b := rng.IntN(entities), rng.IntN(entities)
				if rng.IntN(10) == 0 {
					a = rng.IntN(100)
				}
				ranks[a], ranks[b] = ranks[b], ranks[a]
			}
		}
		for range rate / 100 {
			rank, _ := slices.BinarySearch(sums, rng.Float64()*total)
			for _, c := range clusters {
				select {
				case under <- struct{}{}:
				default:
					late.Add(1)
					continue
				}
				go func() {
					if _, err := c.refs[ranks[min(rank, entities-1)]].Add(ctx, 1); err != nil && ctx.Err() == nil {
						failed.Add(1)
					}
					<-under
				}()
			}
		}
	}
}
