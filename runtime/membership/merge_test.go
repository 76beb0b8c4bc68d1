package membership

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A history makes states as a cluster could: every state comes from the founder's
// by changes and merges, so all of them belong together.
type history struct {
	random *rand.Rand
	nodes  []transport.Address
	states []*Gossip // what each node has; nil: it has nothing yet
	joined int
}

func newHistory(seed uint64, n int) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		h.nodes = append(h.nodes, addr(fmt.Sprintf("n%d", i), uint64(i+1)))
	}
	first := (&Gossip{Founder: h.nodes[0]}).changedBy(h.nodes[0], func(g *Gossip) {
		g.setMember(Member{Address: h.nodes[0], Status: Joining})
	})
	h.states = make([]*Gossip, n)
	h.states[0], h.joined = first, 1
	return h
}

// step lets one node do something to its own state, or take in another's.
func (h *history) step() {
	i := h.random.IntN(h.joined)
	self, g := h.nodes[i], h.states[i]
	if g.removed(self) {
		return
	}
	switch h.random.IntN(6) {
	case 0:
		if h.joined < len(h.nodes) {
			j := h.nodes[h.joined]
			h.states[i] = g.changedBy(self, func(g *Gossip) { g.setMember(Member{Address: j, Status: Joining}) })
			h.states[h.joined] = h.states[i].withSeen(j)
			h.joined++
		}
	case 1, 2:
		h.move(i)
	case 3:
		subject := h.nodes[h.random.IntN(h.joined)]
		if _, ok := g.member(subject); ok {
			e := Evidence(h.random.IntN(int(EvidenceGone) + 1))
			h.states[i] = g.changedBy(self, func(g *Gossip) {
				g.Rows = withRecord(g.Rows, self, Record{subject, e, time.Second, 0})
			})
		}
	default:
		from := h.states[h.random.IntN(h.joined)]
		h.states[i] = g.Merge(from).withSeen(self)
		if h.states[i].removed(self) {
			h.states[i] = g // it ends
		}
	}
}

// move makes one legal move of a random member.
func (h *history) move(i int) {
	self, g := h.nodes[i], h.states[i]
	r := g.Members[h.random.IntN(len(g.Members))]
	var moves []Status
	for to := Joining; to <= Removed; to++ {
		if canBecome[r.Status][to] {
			moves = append(moves, to)
		}
	}
	to := moves[h.random.IntN(len(moves))]
	if to == Removed && r.Address == self {
		return
	}
	h.states[i] = g.changedBy(self, func(g *Gossip) {
		if to == Removed {
			g.remove(r.Address, r.Status == Exiting)
			return
		}
		if to == Up {
			g.UpCounter++
			r.UpNumber = g.UpCounter
		}
		r.Fenced = to == Down && h.random.IntN(2) == 0
		r.ExitReady = to == Leaving && h.random.IntN(2) == 0
		g.setStatus(r, to)
	})
}

// normal makes states comparable: empty and nil lists are one.
func normal(g *Gossip) string {
	return fmt.Sprintf("%v|%+v|%+v|%d|%d|%+v|%v|%v", g.Founder, g.Members, g.Rows, g.UpCounter, g.RemovalCounter, g.Tombstones, g.Seen, g.Version)
}

func mergedInFull(a, b *Gossip) *Gossip {
	m, _ := a.joinAll(b)
	return m
}

func TestMergeIsAJoin(t *testing.T) {
	kinds := map[Ordering]int{}
	removals := uint64(0)
	for seed := range uint64(100) {
		h := newHistory(seed, 6)
		var past []*Gossip
		for range 60 {
			h.step()
			past = append(past, h.states[h.random.IntN(h.joined)])
		}
		pick := func() *Gossip { return past[h.random.IntN(len(past))] }
		for range 40 {
			a, b, c := pick(), pick(), pick()
			ab, order := a.join(b)
			kinds[order]++
			removals = max(removals, ab.RemovalCounter)
			for _, law := range []struct {
				name      string
				got, want *Gossip
			}{
				{"commutative", b.Merge(a), ab},
				{"associative", ab.Merge(c), a.Merge(b.Merge(c))},
				{"the same without short ways", mergedInFull(a, b), ab},
				{"idempotent", a.Merge(a), a},
				{"absorbing", ab.Merge(a), ab},
			} {
				if got, want := normal(law.got), normal(law.want); got != want {
					t.Fatalf("seed %d: merge is not %s:\na    %s\nb    %s\nc    %s\ngot  %s\nwant %s", seed, law.name, normal(a), normal(b), normal(c), got, want)
				}
			}
			if err := ab.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			checkMonotonic(t, a, ab)
		}
	}
	for o := Same; o <= Concurrent; o++ {
		if kinds[o] < 50 {
			t.Errorf("only %d pairs were %v", kinds[o], o)
		}
	}
	if removals < 3 {
		t.Errorf("at most %d removals", removals)
	}
}

// checkMonotonic: what a merge keeps of a only went forward.
func checkMonotonic(t *testing.T, a, merged *Gossip) {
	t.Helper()
	if merged.UpCounter < a.UpCounter || merged.RemovalCounter < a.RemovalCounter {
		t.Fatalf("counters fell: %v to %v", normal(a), normal(merged))
	}
	for _, r := range a.Members {
		m, ok := merged.member(r.Address)
		if !ok && !merged.removed(r.Address) {
			t.Fatalf("%v was lost: %v to %v", r, normal(a), normal(merged))
		}
		if ok && (m.Status < r.Status || r.Fenced && !m.Fenced) {
			t.Fatalf("%v went back to %v", r, m)
		}
	}
	for _, s := range a.Tombstones {
		if _, ok := merged.member(s.Node); ok {
			t.Fatalf("%v came back", s.Node)
		}
	}
	for _, row := range a.Rows {
		if i, ok := slices.BinarySearchFunc(merged.Rows, row.Observer, compareRow); ok && merged.Rows[i].Version < row.Version {
			t.Fatalf("row %v went back to %v", row, merged.Rows[i])
		}
	}
	if _, o := a.join(merged); o != Same && o != Before {
		t.Fatalf("merging made an older version: %v: %v to %v", o, a.Version, merged.Version)
	}
}

// TestChangesLeaveOthersAlone: states are shared, so no change may be seen
// through another one.
func TestChangesLeaveOthersAlone(t *testing.T) {
	for seed := range uint64(50) {
		h := newHistory(seed, 5)
		var states []*Gossip
		var prints []string
		for range 80 {
			h.step()
			for _, g := range h.states[:h.joined] {
				if !slices.Contains(states, g) {
					states, prints = append(states, g), append(prints, normal(g))
				}
			}
		}
		for i, g := range states {
			if got := normal(g); got != prints[i] {
				t.Fatalf("seed %d: a state changed after it was made:\ngot  %s\nwant %s", seed, got, prints[i])
			}
		}
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	self := addr("a", 1)
	g := (&Gossip{Founder: self}).changedBy(self, func(g *Gossip) { g.setMember(Member{Address: self, Status: Joining}) })
	old := g
	for i := range uint64(maxTombstones + 10) {
		g = g.changedBy(self, func(g *Gossip) {
			g.setMember(Member{Address: addr("b", i+1), Status: Down})
			g.remove(addr("b", i+1), false)
		})
	}
	if len(g.Tombstones) != maxTombstones || g.removed(addr("b", 10)) || !g.removed(addr("b", 11)) {
		t.Errorf("got %d tombstones, of 10 %v, of 11 %v", len(g.Tombstones), g.removed(addr("b", 10)), g.removed(addr("b", 11)))
	}
	if m := old.Merge(g); len(m.Tombstones) != maxTombstones || m.check() != nil {
		t.Errorf("merged: %d tombstones, %v", len(m.Tombstones), m.check())
	}
}

func TestVectorClock(t *testing.T) {
	clock := func(counts ...uint64) VectorClock {
		var v VectorClock
		for i, n := range counts {
			if n > 0 {
				v = append(v, ClockEntry{addr(string(rune('a'+i)), 1), n})
			}
		}
		return v
	}
	for _, c := range []struct {
		v, w   VectorClock
		want   Ordering
		merged VectorClock
	}{
		{clock(), clock(), Same, clock()},
		{clock(1), clock(), After, clock(1)},
		{clock(1), clock(2), Before, clock(2)},
		{clock(1, 0, 3), clock(1, 0, 3), Same, clock(1, 0, 3)},
		{clock(1, 0, 3), clock(1, 2, 3), Before, clock(1, 2, 3)},
		{clock(1, 0), clock(0, 1), Concurrent, clock(1, 1)},
		{clock(2, 1, 1), clock(1, 1, 2), Concurrent, clock(2, 1, 2)},
		{clock(0, 0, 1), clock(1, 0, 0), Concurrent, clock(1, 0, 1)},
	} {
		if got := c.v.Compare(c.w); got != c.want {
			t.Errorf("[%v] to [%v]: got %v, want %v", c.v, c.w, got, c.want)
		}
		if got := c.v.Merge(c.w); !slices.Equal(got, c.merged) {
			t.Errorf("[%v] and [%v]: got [%v], want [%v]", c.v, c.w, got, c.merged)
		}
	}
	v := clock(1, 1)
	if got := v.Increment(addr("b", 1)); got.Compare(clock(1, 2)) != Same || v.Compare(clock(1, 1)) != Same {
		t.Errorf("increment: got [%v], from [%v]", got, v)
	}
}

func TestCompareAge(t *testing.T) {
	list := []Member{
		{Address: addr("a", 1)},
		{Address: addr("b", 1), UpNumber: 2},
		{Address: addr("c", 1), UpNumber: 1},
		{Address: addr("a", 2)},
	}
	slices.SortFunc(list, Member.CompareAge)
	var got []string
	for _, m := range list {
		got = append(got, fmt.Sprint(m.Name, m.Incarnation))
	}
	if want := []string{"c1", "b1", "a1", "a2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
