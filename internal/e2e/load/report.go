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
				seen, err := client.Ref(EntityID(i)).Report(ctx)
				if err != nil {
					failed.add(fmt.Errorf("report: %w", err))
					continue
				}
				mu.Lock()
				for sender, seqs := range seen {
					all[pairKey{EntityID(i), sender}] = seqs
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
