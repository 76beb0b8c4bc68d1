package workload

import (
	"context"
	"fmt"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Leader is a singleton that counts, and that leaves a trace of when it lived.
//
//shard:singleton
type Leader struct {
	// Last is the latest sequence number of each sender.
	Last map[string]uint64 `shard:"state"`

	Node  string                `shard:"-"` // where it lives
	Trace func(time.Time) error `shard:"-"` // that it lives at that moment
}

// traceEvery is how often a leader says that it lives.
const traceEvery = 2 * time.Millisecond

// OnActivate begins the trace.
func (l *Leader) OnActivate(ctx context.Context, _ shard.Activation) error {
	return shard.Go(ctx, func(ctx context.Context) error { return live(ctx, l.Trace) })
}

// live leaves the trace.
func live(ctx context.Context, trace func(time.Time) error) error {
	ticker := time.NewTicker(traceEvery)
	defer ticker.Stop()
	for {
		if err := trace(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return trace(time.Now())
		case <-ticker.C:
		}
	}
}

// Beat records one call. Each sender numbers its calls from 1. Fresh means that
// this leader knew nothing of the sender; else a number that is not the next one
// is an error.
func (l *Leader) Beat(_ context.Context, sender string, seq uint64) (node string, fresh bool, err error) {
	fresh, err = note(&l.Last, sender, seq)
	return l.Node, fresh, err
}

// note records a call of a sender.
func note(all *map[string]uint64, sender string, seq uint64) (fresh bool, err error) {
	if *all == nil {
		*all = make(map[string]uint64)
	}
	last, known := (*all)[sender]
	if known && seq != last+1 {
		return false, fmt.Errorf("%s: call %d after %d", sender, seq, last)
	}
	(*all)[sender] = seq
	return !known, nil
}
