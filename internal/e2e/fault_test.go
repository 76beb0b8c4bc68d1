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
)

// TestFaults runs every fault in a short form. Only the length of pauses is not
// judged as cmd/fault does: tests run side by side, and with the race detector.
func TestFaults(t *testing.T) {
	for _, f := range fault.All() {
		t.Run(f.Name, func(t *testing.T) {
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f.Limits.Pause = max(f.Limits.Pause, 10*time.Second)
			row, err := fault.Do(ctx, f, fault.Options{
				Cluster: cluster.Options{Program: program, Dir: t.TempDir()},
				Load:    load.Options{Entities: 200, Rate: 1000},
				Calls:   2000,
				Tail:    500 * time.Millisecond,
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
		})
	}
}
