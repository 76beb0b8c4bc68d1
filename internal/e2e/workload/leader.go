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
	return shard.Go(ctx, l.live)
}

func (l *Leader) live(ctx context.Context) error {
	ticker := time.NewTicker(traceEvery)
	defer ticker.Stop()
	for {
		if err := l.Trace(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return l.Trace(time.Now())
		case <-ticker.C:
		}
	}
}

// Beat records one call. Each sender numbers its calls from 1. Fresh tells that
// this leader knew nothing of the sender; else a number that is not the next one
// is an error.
func (l *Leader) Beat(_ context.Context, sender string, seq uint64) (node string, fresh bool, err error) {
	if l.Last == nil {
		l.Last = make(map[string]uint64)
	}
	last, known := l.Last[sender]
	if known && seq != last+1 {
		return "", false, fmt.Errorf("%s: call %d after %d", sender, seq, last)
	}
	l.Last[sender] = seq
	return l.Node, !known, nil
}
