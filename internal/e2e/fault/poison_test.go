package fault

import (
	"strings"
	"testing"
	"time"
)

// TestSlowdown: what a foreign process that loops takes from the others is not held against the
// poison, but only on a machine with too few processors.
func TestSlowdown(t *testing.T) {
	const ms = time.Millisecond
	needed := processorsFor(5, 1)
	if needed != 8 {
		t.Errorf("%d processors for five nodes and a server, want 8", needed)
	}
	tests := []struct {
		name       string
		processors int
		foreign    time.Duration
		poisoned   time.Duration
		limit      float64
		miss       string
	}{
		{"few, as beside the foreign process", 2, 60 * ms, 70 * ms, 1.5, ""},
		{"few, worse than that", 2, 60 * ms, 100 * ms, 1.5, "1.67 times that beside the foreign process, want at most 1.5"},
		{"one too few", needed - 1, 60 * ms, 70 * ms, 1.5, ""},
		{"enough", needed, 20 * ms, 29 * ms, 1.5, ""},
		{"enough, and worse than before", needed, 60 * ms, 70 * ms, 1.5, "3.50 times what it was, want at most 1.5"},
		{"no limit", needed, 60 * ms, 700 * ms, 0, ""},
	}
	for _, tt := range tests {
		var r report
		s := slowdown{where: "here", processors: tt.processors, needed: needed, quiet: 20 * ms, foreign: tt.foreign, poisoned: tt.poisoned}
		s.judge(&r, tt.limit)
		got := strings.Join(r.misses, "; ")
		if len(r.notes) != 1 || (got == "") != (tt.miss == "") || !strings.Contains(got, tt.miss) {
			t.Errorf("%s: notes %q, misses %q, want %q", tt.name, r.notes, got, tt.miss)
		}
	}
}
