package coordinator

import (
	"strings"
	"testing"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestCheckPlace: an operator's wishes are checked before they are sent. A wish without a node
// takes an earlier one back.
func TestCheckPlace(t *testing.T) {
	const last = 2*placement.MaxShards - 1
	for name, c := range map[string]struct {
		kind string
		pins []Pin
		ok   bool
	}{
		"a wish":          {"Cart", []Pin{{4, "b"}}, true},
		"one taken back":  {"Cart", []Pin{{4, ""}, {5, "b"}}, true},
		"the last shard":  {"Cart", []Pin{{last, "b"}}, true},
		"beyond the last": {"Cart", []Pin{{last + 1, "b"}}, false},
		"no shard":        {"Cart", []Pin{{0, ""}}, false},
		"no node's name":  {"Cart", []Pin{{4, ""}, {5, "b.c"}}, false},
		"no type":         {"", []Pin{{4, "b"}}, false},
		"a long type":     {strings.Repeat("x", maxKindBytes), nil, true},
		"a too long type": {strings.Repeat("x", maxKindBytes+1), nil, false},
	} {
		if err := CheckPlace(c.kind, c.pins); (err == nil) != c.ok {
			t.Errorf("%s: %v, want that it is good: %v", name, err, c.ok)
		}
	}
}
