package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// overload calls clerks at ten times their capacity, besides the usual load. Excess calls are
// refused at once. All other calls are served as before.
var overload = Fault{
	Name:   "overload",
	About:  "for a minute ten times as many calls as the entities of one type can serve",
	Limits: Limits{Pause: unjudged, Recovery: unjudged, Refusal: 100 * time.Millisecond},
	Spares: true,
	Length: time.Minute,
	Inject: func(ctx context.Context, r *Run) error {
		conn, err := r.Cluster.Dial(ctx, "crowd")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // an error of Close harms nothing: the caller belongs to this run
		c := crowd{clerks: workload.NewClerkClient(conn)}
		peak := c.closed(ctx, min(r.Length, peakTime))
		r.Begin()
		before := memory(r.Nodes)
		c.reset()
		c.open(ctx, overloadBy*clerks*float64(time.Second)/float64(served), r.Length)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.judge(r, peak, before)
		return nil
	},
}

// Load of the clerks, and limits under overload.
const (
	clerks     = 4
	served     = 10 * time.Millisecond // each call
	overloadBy = 10
	peakTime   = 5 * time.Second

	goodputLimit = 0.8      // of the peak
	memoryLimit  = 64 << 20 // growth of a node
)

type crowd struct {
	clerks *workload.ClerkClient
	wg     sync.WaitGroup
	good   atomic.Int64
	late   atomic.Int64 // expired, or failed otherwise

	mu       sync.Mutex
	refusals []time.Duration
	took     time.Duration
	failure  error
}

func (c *crowd) reset() {
	c.good.Store(0)
	c.late.Store(0)
	c.refusals, c.failure = nil, nil
}

func (c *crowd) call(ctx context.Context, i int) {
	begin := time.Now()
	err := c.clerks.Ref(fmt.Sprint("clerk-", i%clerks)).Serve(ctx, served)
	took := time.Since(begin)
	switch {
	case err == nil:
		c.good.Add(1)
	case errors.Is(err, shard.ErrOverloaded):
		c.mu.Lock()
		c.refusals = append(c.refusals, took)
		c.mu.Unlock()
	default:
		c.late.Add(1)
		c.mu.Lock()
		c.failure = err
		c.mu.Unlock()
	}
}

// closed keeps every clerk busy, and returns the served calls per second. Each goroutine makes its
// next call after an answer.
func (c *crowd) closed(ctx context.Context, long time.Duration) float64 {
	begin := time.Now()
	for i := range 2 * clerks {
		c.wg.Go(func() {
			for time.Since(begin) < long && ctx.Err() == nil {
				c.call(ctx, i)
			}
		})
	}
	c.wg.Wait()
	return float64(c.good.Load()) / time.Since(begin).Seconds()
}

// open makes rate calls a second without waiting for answers.
func (c *crowd) open(ctx context.Context, rate float64, long time.Duration) {
	begin := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for made := 0; time.Since(begin) < long && ctx.Err() == nil; <-tick.C {
		for due := int(time.Since(begin).Seconds() * rate); made < due; made++ {
			clerk := made
			c.wg.Go(func() { c.call(ctx, clerk) })
		}
	}
	c.took = time.Since(begin)
	served := c.good.Load() // later answers do not belong to this time
	c.wg.Wait()
	c.good.Store(served)
}

func memory(nodes []*cluster.Node) []int {
	var all []int
	for _, n := range nodes {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.Pid()))
		fields := strings.Fields(string(statm))
		if err != nil || len(fields) < 2 {
			return nil // without /proc the memory is not judged
		}
		pages, _ := strconv.Atoi(fields[1])
		all = append(all, pages*os.Getpagesize())
	}
	return all
}

func (c *crowd) judge(r *Run, peak float64, before []int) {
	goodput := float64(c.good.Load()) / c.took.Seconds()
	var p99 time.Duration
	if n := len(c.refusals); n > 0 {
		slices.Sort(c.refusals)
		p99 = c.refusals[n*99/100]
	}
	grown := 0
	for i, after := range memory(r.Nodes) {
		if i < len(before) {
			grown = max(grown, after-before[i])
		}
	}
	r.Note("peak %.0f calls a second; at %d times that for %v: %.0f served a second (%.0f%%), %d refused (p99 %v), %d late; nodes grew by %d MiB at most",
		peak, overloadBy, round(c.took), goodput, 100*goodput/peak, len(c.refusals), round(p99), c.late.Load(), grown>>20)
	miss := func(bad bool, format string, args ...any) {
		if bad {
			r.Miss(format, args...)
		}
	}
	miss(len(c.refusals) == 0, "refused: none, want some")
	miss(p99 > r.limits.Refusal, "refusals took %v (p99), want at most %v", round(p99), r.limits.Refusal)
	miss(goodput < goodputLimit*peak, "served %.0f%% of the peak, want at least %.0f%%", 100*goodput/peak, 100*goodputLimit)
	miss(grown > memoryLimit, "a node grew by %d MiB, want at most %d", grown>>20, memoryLimit>>20)
	miss(c.failure != nil, "late: %v", c.failure)
	for _, n := range r.Nodes {
		logs, err := os.ReadFile(n.Log())
		miss(err != nil, "read the log: %v", err)
		miss(bytes.Contains(logs, []byte("member unreachable")), "%s called a member unreachable", n.Name())
	}
}
