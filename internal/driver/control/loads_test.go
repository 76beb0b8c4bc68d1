package control

import (
	"testing"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// TestLoadReports: a coordinator gets all shards first, and in each tenth report, and otherwise those
// whose levels have changed. A report is bounded.
func TestLoadReports(t *testing.T) {
	var r loads
	id := func(n int) placement.ShardID { return placement.ShardID{Kind: "Cart", Shard: uint32(n)} }
	of := func(levels ...coordinator.LoadLevel) (l coordinator.MemberLoad) {
		for i, level := range levels {
			l.Shards = append(l.Shards, coordinator.ShardLoad{ShardID: id(256 + i), Level: level})
		}
		return l
	}
	term := placement.Term{Number: 1}
	expect := func(what string, l coordinator.MemberLoad, want ...int) {
		t.Helper()
		got := r.report(term, l)
		if len(got) != len(want) {
			t.Fatalf("%s: %d reports, want %d", what, len(got), len(want))
		}
		for i, n := range want {
			if len(got[i].Shards) != n {
				t.Errorf("%s: report %d has %d shards, want %d", what, i, len(got[i].Shards), n)
			}
		}
	}
	expect("the first", of(1, 2, 0), 3)
	expect("nothing has changed", of(1, 2, 0), 0)
	expect("one has", of(1, 3, 0), 1)
	expect("one came", of(1, 3, 0, 0), 1)
	expect("it went", of(1, 3, 0), 0)
	expect("it came again, as before", of(1, 3, 0, 0), 1)
	term.Number++
	expect("another term", of(1, 3, 0, 0), 4)
	for range fullEvery - 1 {
		expect("nothing has changed", of(1, 3, 0, 0), 0)
	}
	expect("the tenth after a full one", of(1, 3, 0, 0), 4)
	many := make([]coordinator.LoadLevel, coordinator.MaxReportedShards+4)
	for i := range many {
		many[i] = 9
	}
	expect("many", of(many...), coordinator.MaxReportedShards, 4)
	expect("many, unchanged", of(many...), 0)
}
