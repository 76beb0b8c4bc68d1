package gossip_test

import (
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
)

// TestLegalMoves: no member returns to an earlier status, and from every status but Removed there
// is a legal move.
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
