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
	"github.com/shardgen/shardgen/internal/invariant"
)

// patience is what tests on a busy machine wait where cmd/fault judges times.
const patience = 20 * time.Second

// TestFaults runs every fault in a short form. Only times are not judged as
// cmd/fault does: tests run side by side, and with the race detector.
func TestFaults(t *testing.T) {
	rate := 1000
	if invariant.Race {
		rate = 300 // a call costs ten times as much; leases must not lapse for want of processor time
	}
	for _, f := range fault.All() {
		t.Run(f.Name, func(t *testing.T) {
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
				Cluster: cluster.Options{Program: program, Dir: t.TempDir(), CallTimeout: patience},
				Load:    load.Options{Entities: 200, Rate: rate},
				Nodes:   3,
				Calls:   2000,
				Length:  min(f.Length, 2*time.Second),
				Times:   min(f.Times, 2),
				Settle:  patience,
				Rounds:  1,
				Tail:    500 * time.Millisecond,
			}
			if f.Separate {
				o.Nodes = f.Nodes // each has its side
			}
			switch f.Subject {
			case fault.OnSingleton:
				testHanded(ctx, t, f, o)
				return
			case fault.OnRemembered:
				testAgain(ctx, t, f, o)
				return
			case fault.OnDurable:
				testSurvival(ctx, t, f, o)
				return
			case fault.OnEveryNode:
				testRestarts(ctx, t, f, o)
				return
			case fault.UnderLoad:
			}
			row, err := fault.Do(ctx, f, o)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := row.Print(&text); err != nil {
				t.Fatal(err)
			}
			if row.Calls < 2000 || len(row.Misses) > 0 {
				t.Errorf("%d misses, %d calls, want none and at least 2000:\n%s", len(row.Misses), row.Calls, &text)
			}
			if f.Times > 0 {
				noticed, err := fault.Notice(ctx, f, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := noticed.Print(&text); err != nil {
					t.Fatal(err)
				}
				if len(noticed.Missed()) > 0 || len(noticed.Strikes) != o.Times {
					t.Errorf("noticed %d of %d times, %d too late:\n%s", len(noticed.Strikes), o.Times, len(noticed.Missed()), &text)
				}
			}
			t.Logf("\n%s", &text)
		})
	}
}

func testAgain(ctx context.Context, t *testing.T, f fault.Fault, o fault.Options) {
	r, err := fault.Activate(ctx, f, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if len(r.Missed()) > 0 || len(r.Strikes) != o.Times {
		t.Errorf("%d misses, %d of %d times:\n%s", len(r.Missed()), len(r.Strikes), o.Times, &text)
	}
	t.Logf("\n%s", &text)
}

func testSurvival(ctx context.Context, t *testing.T, f fault.Fault, o fault.Options) {
	s, err := fault.Durable(ctx, f, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.Print(&text); err != nil {
		t.Fatal(err)
	}
	if len(s.Missed()) > 0 || len(s.Strikes) != o.Times {
		t.Errorf("%d misses, %d of %d times:\n%s", len(s.Missed()), len(s.Strikes), o.Times, &text)
	}
	t.Logf("\n%s", &text)
}

func testRestarts(ctx context.Context, t *testing.T, f fault.Fault, o fault.Options) {
	r, err := fault.RestartAll(ctx, f, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if len(r.Missed()) > 0 || len(r.Restarts) != o.Times {
		t.Errorf("%d misses, %d of %d times:\n%s", len(r.Missed()), len(r.Restarts), o.Times, &text)
	}
	t.Logf("\n%s", &text)
}

func testHanded(ctx context.Context, t *testing.T, f fault.Fault, o fault.Options) {
	h, err := fault.Handed(ctx, f, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := h.Print(&text); err != nil {
		t.Fatal(err)
	}
	if len(h.Missed()) > 0 || len(h.Strikes) != o.Times || len(h.Lives) < o.Times {
		t.Errorf("%d misses, %d of %d times, %d instances:\n%s", len(h.Missed()), len(h.Strikes), o.Times, len(h.Lives), &text)
	}
	t.Logf("\n%s", &text)
}

// TestDirectBetweenHosts: nodes and callers on hosts of their own have direct lanes, and lose and
// double nothing when a host hears nothing for a while. A run whose lanes carry nothing is a miss.
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
	row, err := fault.Do(ctx, f, fault.Options{
		Cluster: cluster.Options{Program: program, Dir: t.TempDir(), CallTimeout: patience, Direct: true},
		Load:    load.Options{Entities: 200, Rate: 500},
		Calls:   2000,
		Length:  2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := row.Print(&text); err != nil {
		t.Fatal(err)
	}
	if row.Calls < 2000 || len(row.Misses) > 0 {
		t.Errorf("%d misses, %d calls, want none and at least 2000:\n%s", len(row.Misses), row.Calls, &text)
	}
	t.Logf("\n%s", &text)
}
