package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// staying is how many entities the client that stays calls, besides a singleton.
const staying = 16

// A stayer calls entities and a singleton by references that it keeps.
type stayer struct {
	calls           []func(context.Context) error
	failed, unknown atomic.Int64

	mu    sync.Mutex
	texts []string
}

func newStayer(c shard.Caller) *stayer {
	s := &stayer{}
	pulses := workload.NewPulseClient(c)
	for i := range staying {
		ref := pulses.Ref(fmt.Sprint(pulseID, i))
		s.calls = append(s.calls, func(ctx context.Context) error {
			_, err := ref.Beat(ctx)
			return err
		})
	}
	leader := workload.NewLeaderClient(c).Ref()
	var senders atomic.Int64
	s.calls = append(s.calls, func(ctx context.Context) error {
		_, _, err := leader.Beat(ctx, fmt.Sprint("stayer-", senders.Add(1)), 1)
		return err
	})
	return s
}

// call makes a call and counts how it ended.
func (s *stayer) call(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	if err != nil && ctx.Err() == nil {
		s.failed.Add(1)
		if shard.OutcomeOf(err) == shard.Unknown {
			s.unknown.Add(1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if text := strings.SplitN(err.Error(), ": ", 2)[1]; len(s.texts) < 10 && !slices.Contains(s.texts, text) {
			s.texts = append(s.texts, text)
		}
	}
	return err
}

// load calls all the time until it is stopped.
func (s *stayer) load(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for _, call := range s.calls {
		callers.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				_ = s.call(ctx, call) // counted
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		callers.Wait()
	}
}

// answers calls each until it answers, and returns when they did, the first first.
func (s *stayer) answers(ctx context.Context) ([]time.Time, error) {
	at, errs := make([]time.Time, len(s.calls)), make([]error, len(s.calls))
	var callers sync.WaitGroup
	for i, call := range s.calls {
		callers.Go(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for errs[i] = s.call(ctx, call); errs[i] != nil && ctx.Err() == nil; errs[i] = s.call(ctx, call) {
				<-pace.C
			}
			at[i] = time.Now()
		})
	}
	callers.Wait()
	slices.SortFunc(at, time.Time.Compare)
	return at, errors.Join(errs...)
}
