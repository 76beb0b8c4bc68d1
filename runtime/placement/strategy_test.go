package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func TestLeastShards(t *testing.T) {
	a, b, c := node("a"), node("b"), node("c")
	for _, tt := range []struct {
		name      string
		threshold int
		homes     []Load
		allocate  transport.Address
		limit     int
		moves     []Transfer
	}{
		{"alone", 0, []Load{{Node: a, Shards: 3, Total: 3, Movable: []uint32{8, 9, 10}}}, a, 3, nil},
		{"even", 0, []Load{{Node: a, Shards: 2, Total: 9, Movable: []uint32{8, 9}}, {Node: b, Shards: 2, Total: 2, Movable: []uint32{10, 11}}}, b, 3, nil},
		{"a difference of the threshold", 0, []Load{{Node: a, Shards: 3, Total: 3, Movable: []uint32{8, 9, 10}}, {Node: b, Shards: 2, Total: 2, Movable: nil}}, b, 3, nil},
		{"above it", 0, []Load{{Node: a, Shards: 4, Total: 4, Movable: []uint32{8, 9, 10, 11}}, {Node: b, Shards: 2, Total: 2, Movable: nil}}, b, 3, []Transfer{{8, b}}},
		{"a higher threshold", 2, []Load{{Node: a, Shards: 4, Total: 4, Movable: []uint32{8, 9, 10, 11}}, {Node: b, Shards: 2, Total: 2, Movable: nil}}, b, 3, nil},
		{"the limit", 0, []Load{{Node: a, Shards: 8, Total: 8, Movable: []uint32{8, 9, 10, 11, 12}}, {Node: b, Shards: 0, Total: 0, Movable: nil}}, b, 2, []Transfer{{8, b}, {9, b}}},
		{
			"from the fullest to the emptiest, in turn", 0,
			[]Load{{Node: a, Shards: 4, Total: 4, Movable: []uint32{8, 9}}, {Node: b, Shards: 4, Total: 4, Movable: []uint32{10, 11}}, {Node: c, Shards: 0, Total: 0, Movable: nil}},
			c, 9,
			[]Transfer{{10, c}, {8, c}},
		},
		{"nothing may move", 0, []Load{{Node: a, Shards: 4, Total: 4, Movable: nil}, {Node: b, Shards: 0, Total: 0, Movable: nil}}, b, 3, nil},
	} {
		s := LeastShards{tt.threshold}
		if got := s.Allocate(ShardID{}, tt.homes); got != tt.allocate {
			t.Errorf("%s: allocates to %v, want %v", tt.name, got, tt.allocate)
		}
		if got := s.Rebalance("Cart", tt.homes, tt.limit); !slices.Equal(got, tt.moves) {
			t.Errorf("%s: moves %v, want %v", tt.name, got, tt.moves)
		}
	}
}

func node(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

func TestStrategiesHaveNames(t *testing.T) {
	for _, s := range []interface{ String() string }{LeastShards{}, LeastShards{Threshold: 7}, ConsistentHash{}, LoadWeighted{}, Beside("Cart")} {
		got, ok := ParseStrategy(s.String())
		if !ok || fmt.Sprint(got) != s.String() {
			t.Errorf("%q is read as %v, %v", s, got, ok)
		}
	}
	if got, ok := ParseStrategy(""); !ok || fmt.Sprint(got) != "least-shards(1)" {
		t.Errorf("no name is read as %v, %v", got, ok)
	}
	for _, name := range []string{"least-shards(0)", "least-shards(7) ", "least-shards(07)", "least-shards", "other"} {
		if got, ok := ParseStrategy(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}
