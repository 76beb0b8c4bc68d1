package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

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
