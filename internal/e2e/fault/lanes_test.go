package fault

import (
	"fmt"
	"testing"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// TestLanes: a run with direct lanes that carry nothing shows nothing, and is a miss.
func TestLanes(t *testing.T) {
	some, none := cluster.Frames{All: 200, Direct: 150}, cluster.Frames{All: 7}
	tests := []struct {
		lanes *Lanes
		want  string
	}{
		{nil, "[]"},
		{&Lanes{some, some}, "[]"},
		{&Lanes{some, none}, "[data frames on direct lanes: 150 of 200 (75%) of nodes, 0 of 7 (0%) of callers, want some of both]"},
		{&Lanes{none, some}, "[data frames on direct lanes: 0 of 7 (0%) of nodes, 150 of 200 (75%) of callers, want some of both]"},
		{&Lanes{}, "[data frames on direct lanes: 0 of 0 (0%) of nodes, 0 of 0 (0%) of callers, want some of both]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(tt.lanes.missed()); got != tt.want {
			t.Errorf("misses %s, want %s", got, tt.want)
		}
	}
}
