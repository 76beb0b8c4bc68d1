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
