package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/fixture"
)

// paced makes calls at a fixed rate, whether earlier ones have been answered or not.
type paced struct {
	mu   sync.Mutex
	took []sample
	err  error
}

// sample is one call: when it was due, and how long after that it was answered.
type sample struct {
	due  time.Time
	took time.Duration
}

func newPaced() *paced { return &paced{} }

// run makes 1,000 calls a second to entities that are never idle for long.
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

// between returns the measure of the calls that were due in a span of time.
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
