package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/examples/counter/counter"
)

const callers = 16

type load struct {
	client   *counter.CounterClient
	counters int
	pace     *pace
	report   func(string)

	done    atomic.Int64
	failed  atomic.Int64
	answers [callers][]answer
}

type answer struct {
	counter int
	total   int64
}

func counterName(i int) string { return fmt.Sprintf("counter-%d", i) }

func (l *load) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { l.answers[i] = l.call(ctx) })
	}
	wg.Wait()
}

// call adds 1 with each call, so a counter's answers must be 1, 2 and so on.
func (l *load) call(ctx context.Context) (answers []answer) {
	for l.pace.take(ctx) {
		i := rand.IntN(l.counters)
		total, err := l.client.Ref(counterName(i)).Add(ctx, 1)
		switch {
		case err == nil:
			answers = append(answers, answer{i, total})
		case ctx.Err() != nil: // the run ends early and says why
			return answers
		default:
			l.fail("add", err)
		}
		l.done.Add(1)
	}
	return answers
}

func (l *load) fail(what string, err error) {
	if n := l.failed.Add(1); n <= 10 {
		l.report(fmt.Sprintf("failed: %s: %s", what, oneLine(err)))
	} else if n == 11 {
		l.report("failed: more than is printed")
	}
}

// totals asks every counter. A counter that does not answer has total -1, and counts as failed.
func (l *load) totals(ctx context.Context) []int64 {
	totals := make([]int64, l.counters)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < l.counters; i = int(next.Add(1)) - 1 {
				var err error
				if totals[i], err = l.client.Ref(counterName(i)).Get(ctx); err != nil {
					l.fail("get", err)
					totals[i] = -1
				}
			}
		})
	}
	wg.Wait()
	return totals
}
