package fault

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// resumeAfter is how long a follower reads before it begins anew at its position, as one does
// that was restarted.
const resumeAfter = 3 * time.Second

// A follower reads the events of all tills.
type follower struct {
	tills *workload.TillClient
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	from    shard.Position
	tallies map[string]*tally
	err     error // the last
}

// follow begins to read from the first event on.
func follow(caller shard.Caller) *follower {
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{tills: workload.NewTillClient(caller), stop: stop, tallies: map[string]*tally{}}
	f.wg.Go(func() {
		for ctx.Err() == nil {
			err := f.read(ctx)
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			if err != nil {
				_ = sleep(ctx, 100*time.Millisecond) // ctx is looked at next
			}
		}
	})
	return f
}

// read reads for a while.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resumeAfter)
	defer cancel()
	for e, err := range f.tills.Events(ctx, f.from) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		f.see(e)
	}
	return nil
}

func (f *follower) see(e shard.Event[workload.Sale]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tallies[e.Entity] == nil {
		f.tallies[e.Entity] = &tally{}
	}
	f.tallies[e.Entity].see(e.Event.Total)
	f.from = e.Position
}

// of returns the sales of a till that the follower has seen.
func (f *follower) of(till string) tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tallies[till]; t != nil {
		return *t
	}
	return tally{}
}

// end stops reading. It may be called again.
func (f *follower) end() {
	f.stop()
	f.wg.Wait()
}

func (f *follower) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
