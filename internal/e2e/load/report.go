package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// askers is how many goroutines collect the entities' reports.
const askers = 16

// remembered collects the records of all entities; errors are added to failed.
func remembered(ctx context.Context, c shard.Caller, entities int, failed *errorSample) map[pairKey][]uint64 {
	client := workload.NewTallyClient(c)
	all := make(map[pairKey][]uint64)
	var mu sync.Mutex
	var next atomic.Int64
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < entities; i = int(next.Add(1)) - 1 {
				seen, err := client.Ref(EntityName(i)).Report(ctx)
				if err != nil {
					failed.add(fmt.Errorf("report: %w", err))
					continue
				}
				mu.Lock()
				for sender, seqs := range seen {
					all[pairKey{EntityName(i), sender}] = seqs
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// Slow is how long an entity may pause before it counts as disturbed.
const Slow = 250 * time.Millisecond

// Timing is how entities answered from some time on.
type Timing struct {
	Longest time.Duration // the longest pause of an entity
	// Recovery is the time until all calls went well again: none failed or took
	// longer than Slow from then on. 0 if all went well.
	Recovery  time.Duration
	Disturbed int // entities of which a call failed or took longer than Slow
	Silent    int // entities that do not answer yet
	P50, P99  time.Duration
}

// Timing measures the entities that which selects, from a time on. P50 and P99
// are of the entities' longest pauses.
func (l *Load) Timing(from time.Time, which func(entity string) bool) Timing {
	now := time.Now()
	var t Timing
	var longest []time.Duration
	for _, p := range l.pauses {
		if !which(p.entity) {
			continue
		}
		pause := p.longest(from, now)
		longest = append(longest, pause)
		t.Longest = max(t.Longest, pause)
		at, never := p.recovered(from, Slow)
		if never {
			t.Silent++
			at = now
		}
		if !at.IsZero() {
			t.Disturbed++
			t.Recovery = max(t.Recovery, at.Sub(from))
		}
	}
	if n := len(longest); n > 0 {
		slices.Sort(longest)
		t.P50, t.P99 = longest[n/2], longest[n*99/100]
	}
	return t
}

// Latency is how long entities that which selects took to answer between two
// times: quantiles of all bursts of calls that began and ended then and went well.
func (l *Load) Latency(from, to time.Time, which func(entity string) bool) (p50, p99 time.Duration) {
	var all []time.Duration
	for _, p := range l.pauses {
		if which(p.entity) {
			all = p.within(all, from, to)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// Everyone selects all entities.
func Everyone(string) bool { return true }

// Describe prints homes in order of name, for messages.
func Describe(homes map[string]int) string {
	text := ""
	for _, node := range slices.Sorted(maps.Keys(homes)) {
		text += fmt.Sprintf(" %s=%d", node, homes[node])
	}
	return "entities seen at" + text
}
