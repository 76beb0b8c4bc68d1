package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/shardgen/shardgen/internal/sim/chaos"
)

// maxFailures is after how many failing seeds a sweep gives up.
const maxFailures = 10

// one replays one random run.
func one(w io.Writer, seed uint64, trace func(string)) error {
	began := time.Now()
	r := chaos.Run(chaos.Options{Seed: seed, Trace: trace})
	fmt.Fprintf(w, "seed %d: %d processes, %v of virtual time in %v, %d steps, one view after %v, trace %016x\n",
		seed, r.Nodes, r.Virtual.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), r.Steps, r.Settled.Round(time.Millisecond), r.Hash)
	return r.Err
}

// many makes random runs on all processors, for as long as it may.
func many(w io.Writer, first uint64, seeds, twice int, within time.Duration) error {
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if within > 0 {
		defer time.AfterFunc(within, stop).Stop()
	}
	failed := 0
	slowest := chaos.Result{}
	totals := chaos.Sweep{
		First: first, Seeds: seeds, Workers: runtime.GOMAXPROCS(0), Twice: twice,
		Done: func(r chaos.Result) {
			if r.Err == nil && r.Settled > slowest.Settled {
				slowest = r
			}
			if r.Err == nil {
				return
			}
			fmt.Fprintf(w, "seed %d: %v\n  %s\n", r.Seed, r.Err, chaos.Replay(r.Seed))
			if failed++; failed == maxFailures {
				stop()
			}
		},
	}.Run(ctx)
	c := totals.Counts
	fmt.Fprintf(w, "%d runs in %v, %d of them twice: %d failed\n", totals.Runs, time.Since(began).Round(time.Second), totals.Twice, totals.Failed)
	fmt.Fprintf(w, "%d processes, %d steps; seen by members: %d up, %d unreachable, %d downed, %d fenced, %d removed, %d leaving\n",
		totals.Nodes, totals.Steps, c.Ups, c.Unreachable, c.Downs, c.Fenced, c.Removals, c.Leaves)
	fmt.Fprintf(w, "%d stopped themselves, %d of them to rejoin; %d could not join; slowest to settle: seed %d after %v\n",
		c.SelfDowned, c.Rejoins, c.JoinFailed, slowest.Seed, slowest.Settled.Round(100*time.Millisecond))
	if totals.Failed > 0 {
		return fmt.Errorf("simulate: %d of %d seeds failed", totals.Failed, totals.Runs)
	}
	return nil
}
