package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

// loads reads members as "a 0.9 of 1: 8=0.3 9=0.3", by their used processors, capacity and movable
// shards. "full" before the colon means that the member's memory is full.
func loads(t *testing.T, lines ...string) (homes []Load) {
	t.Helper()
	for _, line := range lines {
		head, shards, _ := strings.Cut(line, ":")
		l := Load{Shards: len(strings.Fields(shards))}
		var name string
		if _, err := fmt.Sscanf(head, "%s %f of %f", &name, &l.Used, &l.Capacity); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		l.Node = node(name)
		if strings.HasSuffix(head, " full") {
			l.Memory = 0.91
		}
		for _, s := range strings.Fields(shards) {
			var number uint32
			var cost float32
			if _, err := fmt.Sscanf(s, "%d=%f", &number, &cost); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			l.Movable, l.Costs, l.OfType = append(l.Movable, number), append(l.Costs, cost), l.OfType+float64(cost)
		}
		homes = append(homes, l)
	}
	return homes
}

func TestLoadWeightedPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		homes  []string
		before Balance
		limit  int
		moves  string
		after  Balance
		still  string
	}{
		{"nothing is measured", []string{"a 0 of 1: 8=0", "b 0 of 1: 9=0"}, Balance{Budget: 5}, 9, "", Balance{Budget: 5}, "no load has been measured"},
		{"within the band", []string{"a 0.59 of 1: 8=0.1 9=0.4", "b 0.41 of 1: 10=0.4"}, Balance{Budget: 5}, 9, "", Balance{Budget: 5}, "a, the highest, is at 1.18 of mean, and moves begin above 1.2"},
		{"within the band, while shards move", []string{"a 0.59 of 1: 8=0.1 9=0.4", "b 0.41 of 1: 10=0.4"}, Balance{true, 5}, 9, "8→b", Balance{false, 4}, "b, the highest, is at 1.02"},
		{"above the band", []string{"a 0.7 of 1: 8=0.2 9=0.5", "b 0.3 of 1: 10=0.3"}, Balance{Budget: 5}, 9, "8→b", Balance{false, 4}, "at 1.00"},
		{"the best shard goes to the best member", []string{"a 0.9 of 1: 8=0.1 9=0.3 10=0.5", "b 0.3 of 1: 11=0.1", "c 0.2 of 1: 12=0.1"}, Balance{Budget: 5}, 1, "9→c", Balance{true, 4}, "the limit of simultaneous moves is reached"},
		{"a full member gets none", []string{"a 0.9 of 1: 8=0.1 9=0.3 10=0.5", "b 0.3 of 1: 11=0.1", "c 0.2 of 1 full: 12=0.1"}, Balance{Budget: 5}, 1, "9→b", Balance{true, 4}, ""},
		{"a large member has room", []string{"a 0.9 of 1: 8=0.3 9=0.6", "b 0.5 of 4: 10=0.1", "c 0.3 of 1: 11=0.1"}, Balance{Budget: 5}, 1, "9→b", Balance{true, 4}, ""},
		{"no member gets more than its capacity", []string{"a 2 of 1: 8=0.3 9=0.4", "b 0.8 of 1: 10=0.1", "c 0.9 of 1: 11=0.1"}, Balance{Budget: 5}, 9, "", Balance{false, 5}, "none of its 2 shards that may move would make it better by enough"},
		{"no budget", []string{"a 0.7 of 1: 8=0.2 9=0.5", "b 0.3 of 1: 10=0.3"}, Balance{Budget: 0.9}, 9, "", Balance{true, 0.9}, "the budget of moves for this hour is used up"},
		{"no budget, and urgent", []string{"a 0.8 of 1: 8=0.3 9=0.5", "b 0.2 of 1: 10=0.2"}, Balance{Budget: -3}, 9, "8→b", Balance{false, -4}, ""},
		{"no budget, and urgent only for one that cannot move", []string{"a 2 of 1: 8=2", "b 0.9 of 1: 9=0.3 10=0.6", "c 0.1 of 1:", "d 0.1 of 1:"}, Balance{Budget: -3}, 9, "", Balance{false, -3}, "a is at 2.58 of mean, but none of its 1 shards"},
		{"the limit", []string{"a 0.9 of 1: 8=0.2 9=0.2 10=0.2", "b 0.1 of 1:"}, Balance{Budget: 5}, 0, "", Balance{false, 5}, "the limit of simultaneous"},
		{"one shard is all", []string{"a 0.9 of 1: 8=0.9", "b 0.1 of 1: 9=0.1"}, Balance{true, 5}, 9, "", Balance{false, 5}, "none of its 1 shards that may move would make it better by enough"},
		{"the next member moves shards, if the highest cannot", []string{"a 2 of 1: 8=2", "b 1.6 of 1: 9=0.4 10=0.8", "c 0.1 of 1:", "d 0.1 of 1:"}, Balance{Budget: 5}, 1, "10→c", Balance{true, 4}, ""},
		{"idle", []string{"a 0.049 of 1: 8=0.02 9=0.02", "b 0.01 of 1:"}, Balance{Budget: 5}, 9, "", Balance{Budget: 5}, "uses only 4.9% of its capacity"},
		{"too small a gain", []string{"a 0.7 of 1: 8=0.0002 9=0.6", "b 0.3 of 1:"}, Balance{Budget: 5}, 9, "", Balance{Budget: 5}, "by enough"},
	} {
		moves, after, still := LoadWeighted{}.Plan(loads(t, c.homes...), c.before, c.limit)
		var got []string
		for _, m := range moves {
			got = append(got, fmt.Sprintf("%d→%s", m.Shard, m.Transfer.To.Name))
		}
		if strings.Join(got, " ") != c.moves || after != c.after || !strings.Contains(still, c.still) {
			t.Errorf("%s: %v, %+v, %s\nwant %s, %+v, %s", c.name, got, after, still, c.moves, c.after, c.still)
		}
	}
}

func TestLoadWeightedAllocate(t *testing.T) {
	for _, c := range []struct {
		name  string
		homes []string
		want  string
	}{
		{"the least load", []string{"a 0.5 of 1: 8=0.1", "b 0.4 of 1: 9=0.1 10=0.1"}, "b"},
		{"for its capacity", []string{"a 0.5 of 2: 8=0.1", "b 0.4 of 1: 9=0.1 10=0.1"}, "a"},
		{"a full one last", []string{"a 0.5 of 1: 8=0.1", "b 0.4 of 1 full: 9=0.1 10=0.1"}, "a"},
		{"the type is not measured", []string{"a 0.5 of 1: 8=0", "b 0.4 of 1: 9=0 10=0"}, "a"},
		{"the type is not measured, capacity", []string{"a 0.5 of 1: 8=0", "b 0.4 of 4: 9=0 10=0"}, "b"},
	} {
		if got := (LoadWeighted{}).Allocate(ShardID{}, loads(t, c.homes...)).Name; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLoadWeightedGains: at random loads, each move takes a shard from a member above the band to a
// member that stays below it. No shard moves twice, and plans end.
func TestLoadWeightedGains(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		homes := randomLoads(rng, 2+rng.IntN(12), 60)
		b, high := Balance{Budget: 1000}, 0.0
		for plans := 0; ; plans++ {
			moves, after, _ := LoadWeighted{}.Plan(homes, b, 3)
			b = after
			if len(moves) == 0 {
				break
			}
			if plans > 60 {
				t.Fatalf("after %d plans, the last with %v, shards still move", plans, moves)
			}
			if high > 0 && moves[0].From > high+1e-9 {
				t.Fatalf("the highest load rises from %.3f to %.3f", high, moves[0].From)
			}
			for _, m := range moves {
				if m.From < stopBelow || m.To >= m.From || m.After >= m.From {
					t.Fatalf("%+v", m)
				}
				moveLoad(homes, m)
			}
		}
	}
}

func randomLoads(rng *rand.Rand, n, shards int) (homes []Load) {
	for i := range n {
		homes = append(homes, Load{Node: node(fmt.Sprintf("n%d", i)), Capacity: float64(1 + rng.IntN(2))})
	}
	for s := range uint32(shards) {
		l, cost := &homes[rng.IntN(n)], float32(rng.ExpFloat64()/10)
		l.Movable, l.Costs = append(l.Movable, s+1), append(l.Costs, cost)
		l.Shards, l.Used, l.OfType = l.Shards+1, l.Used+float64(cost), l.OfType+float64(cost)
	}
	return homes
}

func moveLoad(homes []Load, m LoadMove) {
	at := func(a transport.Address) *Load {
		return &homes[slices.IndexFunc(homes, func(l Load) bool { return l.Node == a })]
	}
	from, to := at(m.Home), at(m.Transfer.To)
	i := slices.Index(from.Movable, m.Shard)
	cost := from.Costs[i]
	from.Movable, from.Costs = slices.Delete(from.Movable, i, i+1), slices.Delete(from.Costs, i, i+1)
	to.Movable, to.Costs = append(to.Movable, m.Shard), append(to.Costs, cost)
	from.Used, to.Used = from.Used-float64(cost), to.Used+float64(cost)
}

// BenchmarkLoadWeighted plans a large cluster: 1,048,576 shards at 10,000 nodes.
func BenchmarkLoadWeighted(b *testing.B) {
	homes := randomLoads(rand.New(rand.NewPCG(1, 1)), 10_000, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		if moves, _, still := (LoadWeighted{}).Plan(homes, Balance{Budget: 100}, 8); len(moves) != 8 {
			b.Fatalf("%d moves: %s", len(moves), still)
		}
	}
}
