package coordinator

import (
	"strings"
	"testing"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestCheckPins: an operator's pins are checked before they are sent. A pin without a node
// withdraws an earlier pin.
func TestCheckPins(t *testing.T) {
	const last = 2*placement.MaxShards - 1
	for name, c := range map[string]struct {
		kind string
		pins []Pin
		ok   bool
	}{
		"a pin":           {"Cart", []Pin{{4, "b"}}, true},
		"one taken back":  {"Cart", []Pin{{4, ""}, {5, "b"}}, true},
		"the last shard":  {"Cart", []Pin{{last, "b"}}, true},
		"beyond the last": {"Cart", []Pin{{last + 1, "b"}}, false},
		"no shard":        {"Cart", []Pin{{0, ""}}, false},
		"no node's name":  {"Cart", []Pin{{4, ""}, {5, "b.c"}}, false},
		"no type":         {"", []Pin{{4, "b"}}, false},
		"a long type":     {strings.Repeat("x", maxTypeBytes), nil, true},
		"a too long type": {strings.Repeat("x", maxTypeBytes+1), nil, false},
	} {
		if err := CheckPins(c.kind, c.pins); (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want valid: %v", name, err, c.ok)
		}
	}
}

// TestFulfil: pins are fulfilled up to a limit, and counted in the homes for the strategy.
func TestFulfil(t *testing.T) {
	a, b := node("a"), node("b")
	homes := []placement.Load{{Node: a, Shards: 3, Total: 5}, {Node: b, Shards: 1, Total: 2}}
	moves := []pinMove{{a, placement.Transfer{Shard: 4, To: b}}, {a, placement.Transfer{Shard: 5, To: b}}}
	if got := fulfil(moves, homes, 1); len(got) != 1 || got[0] != moves[0].Transfer {
		t.Errorf("got %v, want the first", got)
	}
	if homes[0].Shards != 2 || homes[0].Total != 4 || homes[1].Shards != 2 || homes[1].Total != 3 {
		t.Errorf("got loads %+v after one shard went from a to b", homes)
	}
}
