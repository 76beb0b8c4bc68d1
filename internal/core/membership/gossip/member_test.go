package gossip_test

import (
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
)

// TestLegalMoves: nobody comes back, and every status but Removed has a way on.
func TestLegalMoves(t *testing.T) {
	for from := gossip.NoStatus; from <= gossip.Removed; from++ {
		ways := 0
		for to := gossip.NoStatus; to <= gossip.Removed; to++ {
			if !from.CanBecome(to) {
				continue
			}
			ways++
			if to <= from {
				t.Errorf("%v can become %v, and merging would take it back", from, to)
			}
		}
		if (ways == 0) != (from == gossip.Removed) {
			t.Errorf("%v has %d ways on", from, ways)
		}
	}
}
