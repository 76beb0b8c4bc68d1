package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/fault"
	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/util/invariant"
)

// patience replaces the shorter limits of time that cmd/fault judges, because tests run on busy
// machines.
const patience = 20 * time.Second

// TestFaults runs every fault except change-over in a short form. It does not judge times, because
// tests run side by side and with the race detector.
func TestFaults(t *testing.T) {
	rate := 1000
	if invariant.Race {
		rate = 300 // with the race detector a call costs ten times as much, and leases must not lapse for lack of processor time
	}
	for _, f := range fault.All() {
		if f.Name == "change-over" { // rarely, some calls to a node that began with the table wait for their deadline; run the command until that is explained
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Needs != nil {
				if err := f.Needs(); err != nil {
					t.Skip(err)
				}
			}
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			for _, limit := range []*time.Duration{&f.Limits.Pause, &f.Limits.Recovery, &f.Limits.Refusal, &f.Notice} {
				if *limit > 0 {
					*limit = max(*limit, patience)
				}
			}
			f.Limits.Neighbours = 0
			o := fault.Options{
				Cluster:  cluster.Options{Program: program, Dir: t.TempDir(), CallTimeout: patience},
				Load:     load.Options{Entities: 200, Rate: rate},
				Nodes:    3,
				Calls:    2000,
				Length:   min(f.Length, 2*time.Second),
				Times:    min(f.Times, 2),
				Settle:   patience,
				Rounds:   1,
				Messages: 5000,
				Tail:     500 * time.Millisecond,
			}
			if f.Separate || f.Table {
				o.Nodes = f.Nodes // each has its side
			}
			judge(ctx, t, f, o)
		})
	}
}

// judge runs a fault and fails the test for each miss.
func judge(ctx context.Context, t *testing.T, f fault.Fault, o fault.Options) {
	t.Helper()
	all, err := fault.Do(ctx, f, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, outcome := range all {
		if err := fault.Print(&text, outcome); err != nil {
			t.Fatal(err)
		}
		if misses := len(outcome.Missed()); misses > 0 {
			t.Errorf("%d misses, want none:\n%s", misses, &text)
		}
	}
	t.Logf("\n%s", &text)
}

// TestDirectBetweenHosts: nodes and callers on separate hosts use direct lanes. When a host hears
// nothing for a while, no call is lost or doubled. A run whose lanes carry nothing is a miss.
func TestDirectBetweenHosts(t *testing.T) {
	if invariant.Race {
		t.Skip("TestFaults has it without direct lanes, and the race detector takes all processor time")
	}
	f, err := fault.ByName("one-way")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Needs(); err != nil {
		t.Skip(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	f.Limits.Recovery = patience
	judge(ctx, t, f, fault.Options{
		Cluster: cluster.Options{Program: program, Dir: t.TempDir(), CallTimeout: patience, Direct: true},
		Load:    load.Options{Entities: 200, Rate: 500},
		Calls:   2000,
		Length:  2 * time.Second,
	})
}
