package control

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestLoadReports: a coordinator gets all shards in the first and each tenth report. Other reports
// have only shards whose levels have changed. Their size is bounded.
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

// TestReportsOfManyMembers: 10,000 members with 1,048,576 shards of 16 types, whose loads differ by noise
// of 30 % from one report to the next, send at most 64 kB/s together.
func TestReportsOfManyMembers(t *testing.T) {
	const members, shards, kinds, sampled, rounds = 10_000, 1 << 20, 16, 20, 2 * fullEvery
	rng := rand.New(rand.NewPCG(1, 1))
	bytes, full := 0, 0
	for n := range sampled {
		self := transport.Peer{Address: transport.Address{Name: fmt.Sprintf("worker-%05d", n), Incarnation: rng.Uint64()}}
		var l coordinator.MemberLoad
		var used []float64
		for range shards / members {
			kind := rng.IntN(kinds)
			id := placement.ShardID{Kind: fmt.Sprintf("Type%02d", kind), Shard: uint32(shards/kinds + rng.IntN(shards/kinds))}
			l.Shards = append(l.Shards, coordinator.ShardLoad{ShardID: id})
			used = append(used, rng.ExpFloat64()/100)
		}
		slices.SortFunc(l.Shards, func(a, b coordinator.ShardLoad) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
		})
		var r loads
		for round := range rounds {
			for i := range l.Shards {
				l.Shards[i].Level = coordinator.LevelOf(used[i] * math.Exp(0.3*rng.NormFloat64()))
			}
			for _, report := range r.report(placement.Term{Number: 1}, l) {
				body, err := coordinator.Encode(report)
				if err != nil {
					t.Fatal(err)
				}
				size := len(wire.SealControl("production", self, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body))
				bytes += size
				if round%fullEvery == 0 {
					full = max(full, size)
				}
			}
		}
	}
	each := float64(bytes) / sampled / rounds
	rate := each * members / coordinator.ReportInterval(members).Seconds()
	t.Logf("a report has %.0f bytes, %d at most; %d members send %.1f kB/s", each, full, members, rate/1000)
	if rate > 64_000 {
		t.Errorf("%d members send %.0f bytes a second, want 64,000 at most", members, rate)
	}
}
