// Command attribute compares the processor time attributed to shards with the time that their turns
// take. Two processes host 20 shards with one entity each. An entity's turn uses the processor for a
// known time, from 0.25 to 8 ms, and is measured at the thread that runs it. The calls come at random
// times. For each shard, the command prints its part of the attributed time as a multiple of its part
// of the measured time. The attributed times' sum is larger, because it includes frames, encoding, and
// the process's own work.
//
//	go run -C bench ./cmd/attribute -for 70s
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
)

const (
	workers  = 2
	entities = 20
	shortest = 250 * time.Microsecond
	longest  = 8 * time.Millisecond
	kind     = "Account"
	cluster  = "attribute"
)

func main() {
	lasts := flag.Duration("for", 70*time.Second, "`time` to measure, in intervals of 10 s")
	rate := flag.Int("rate", 5, "calls a second of each entity")
	url := flag.String("worker", "", "run a worker of the cluster at this NATS server, in place of all")
	name := flag.String("name", "", "of the worker")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := error(nil)
	if *url != "" {
		err = worker(ctx, *url, *name)
	} else {
		err = measure(ctx, *lasts, *rate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attribute:", err)
		os.Exit(1)
	}
}

var sink atomic.Uint64

// spin computes until this thread has used d of processor time.
func spin(d time.Duration) {
	x := 0.0
	for begin := threadTime(); threadTime()-begin < d; {
		for i := range 2000 {
			x += math.Sqrt(float64(i))
		}
	}
	sink.Store(math.Float64bits(x))
}

// threadTime returns the processor time of the calling thread. Getrusage would return that of the
// last tick of the kernel's clock, some milliseconds ago.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// cost returns the processor time of a turn of the entity, from the number at the beginning of id.
func cost(id string) time.Duration {
	number, _, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(number)
	return time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), float64(n)/(entities-1)))
}

// A sum has a worker's processor seconds in some intervals, by entity and by shard.
type sum struct {
	Intervals  int
	Known      map[string]float64 // by entity
	Attributed map[uint32]float64 // by shard
}

// worker runs a member. It answers "locate ID" with the shard and its home, and other lines with a sum.
func worker(ctx context.Context, url, name string) error {
	var mu sync.Mutex
	known := map[string]float64{}
	node, err := process.Member(ctx, process.Config(url, cluster, name),
		shard.Intercept(func(ctx context.Context, info shard.Info, next func(context.Context) error) error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begin := threadTime()
			spin(cost(info.ID))
			err := next(ctx)
			took := threadTime() - begin
			mu.Lock()
			defer mu.Unlock()
			known[info.ID] += took.Seconds()
			return err
		}))
	if err != nil {
		return err
	}
	fmt.Println("up")
	all := sum{Known: map[string]float64{}, Attributed: map[uint32]float64{}}
	go func() {
		last, before, began := 0.0, map[string]float64{}, time.Now()
		for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
			l := node.Load()
			if l.Process.Used == last {
				continue
			}
			mu.Lock()
			took := time.Since(began).Seconds()
			began, last = time.Now(), l.Process.Used
			first := len(before) == 0
			for id, v := range known {
				if !first {
					all.Known[id] += v - before[id]
				}
				before[id] = v
			}
			if !first {
				all.Intervals++
				for _, s := range l.Process.Hottest {
					all.Attributed[s.Shard] += s.Used * took
				}
			}
			mu.Unlock()
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "locate "); ok {
			at, err := node.Locate(ctx, kind, id)
			if err != nil {
				return err
			}
			fmt.Println(at.Shard, at.Node)
			continue
		}
		mu.Lock()
		b, err := json.Marshal(all)
		mu.Unlock()
		if err != nil {
			return err
		}
		fmt.Println(string(b))
	}
	return node.Close()
}

func measure(ctx context.Context, lasts time.Duration, rate int) error {
	server, err := natsproc.Run()
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	var children []*process.Child
	for n := range workers {
		child, _, err := process.Spawn(ctx, "-worker", server.URL(), "-name", fmt.Sprintf("web-%d", n+1))
		if err != nil {
			return err
		}
		defer func() { _ = child.Kill() }()
		children = append(children, child)
	}
	conn, err := shard.Dial(ctx, process.Config(server.URL(), cluster, "caller"))
	if err != nil {
		return err
	}
	shards, homes := map[uint32]string{}, map[string]int{} // entities by shard, and their number by member
	client := fixture.NewAccountClient(conn)
	for n := range entities {
		for try := 0; ; try++ { // entities have shards of their own, half at each member
			id := fmt.Sprintf("%d.%d", n, try)
			if _, err := client.Ref(id).Add(ctx, 1); err != nil {
				return err
			}
			answer, err := children[0].Do("locate " + id)
			if err != nil {
				return err
			}
			number, home, _ := strings.Cut(strings.TrimSpace(answer), " ")
			at, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return err
			}
			if shards[uint32(at)] == "" && homes[home] < entities/workers {
				shards[uint32(at)] = id
				homes[home]++
				break
			}
		}
	}
	for _, id := range shards {
		go func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(rand.ExpFloat64() / float64(rate) * float64(time.Second)))
				if _, err := client.Ref(id).Add(ctx, 1); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "attribute:", err)
				}
			}
		}()
	}
	time.Sleep(lasts)
	var ratios []float64
	for i, child := range children {
		answer, err := child.Do("sum")
		if err != nil {
			return err
		}
		var s sum
		if err := json.Unmarshal([]byte(answer), &s); err != nil {
			return err
		}
		known, attributed := 0.0, 0.0
		for number, at := range s.Attributed {
			known, attributed = known+s.Known[shards[number]], attributed+at
		}
		fmt.Printf("web-%d: %.2f s are attributed to %d shards in %d intervals, of which their turns have taken %.2f s\n", i+1, attributed, len(s.Attributed), s.Intervals, known)
		for _, number := range slices.Sorted(maps.Keys(s.Attributed)) {
			id, at := shards[number], s.Attributed[number]
			ratio := at / attributed / (s.Known[id] / known)
			ratios = append(ratios, ratio)
			fmt.Printf("shard %d, a turn of %4.0f µs: known %.2f s, attributed %.2f s, %.3f of its share\n", number, float64(cost(id))/1e3, s.Known[id], at, ratio)
		}
	}
	slices.Sort(ratios)
	if len(ratios) == 0 {
		return fmt.Errorf("no processor time was attributed to any shard in %v", lasts)
	}
	fmt.Printf("%d shards: attributed %.3f to %.3f of their known shares\n", len(ratios), ratios[0], ratios[len(ratios)-1])
	return nil
}
