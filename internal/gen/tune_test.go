package gen

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestTune checks that GOGC and GOMEMLIMIT take precedence over Tune.
func TestTune(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	for _, tt := range []struct {
		gogc, memory string
		percent      int
		limit        int64
	}{
		{"", "", gcPercent, memoryLimit},
		{"50", "", 100, memoryLimit},
		{"", "5GiB", gcPercent, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("GOGC", tt.gogc)
		t.Setenv("GOMEMLIMIT", tt.memory)
		Tune()
		if p, l := debug.SetGCPercent(100), debug.SetMemoryLimit(-1); p != tt.percent || l != tt.limit {
			t.Errorf("with GOGC=%q and GOMEMLIMIT=%q: %d and %d, want %d and %d", tt.gogc, tt.memory, p, l, tt.percent, tt.limit)
		}
	}
}
