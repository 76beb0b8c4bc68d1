package membership

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

func TestPhi(t *testing.T) {
	start := time.Unix(0, 0)
	d := newPhiDetector(start, time.Second)
	if d.mean != 1 || d.deviation != 0.25 {
		t.Fatalf("got mean %v deviation %v, want 1 and a quarter", d.mean, d.deviation)
	}
	for _, c := range []struct {
		after time.Duration
		pause time.Duration
		want  float64
	}{
		{time.Second, 0, math.Log10(2)}, // at the mean it is as likely as not
		{0, 0, 0},
		{4 * time.Second, 3 * time.Second, math.Log10(2)},
		{time.Hour, 0, math.Inf(1)}, // e has underflowed
	} {
		if got := d.phi(start.Add(c.after), c.pause); math.Abs(got-c.want) > 1e-3 && got != c.want {
			t.Errorf("after %v with pause %v: got %v, want %v", c.after, c.pause, got, c.want)
		}
	}
	previous := -1.0
	for ms := 0; ms < 10_000; ms += 10 {
		got := d.phi(start.Add(time.Duration(ms)*time.Millisecond), time.Second)
		if got < previous || math.IsNaN(got) {
			t.Fatalf("after %d ms: %v, after %v before", ms, got, previous)
		}
		previous = got
	}
}

func TestPhiInverse(t *testing.T) {
	for _, threshold := range []float64{0.1, 1, 8, 12, 16, 100, 300} {
		y := phiInverse(threshold)
		if below, at := phiOf(y-1e-9), phiOf(y); below >= threshold || at < threshold {
			t.Errorf("threshold %v: y %v has %v, just below it %v", threshold, y, at, below)
		}
	}
}

// TestPhiForgetsOutages: the interval that ended an outage would make the
// detector slow for the next one.
func TestPhiForgetsOutages(t *testing.T) {
	now := time.Unix(0, 0)
	d := newPhiDetector(now, time.Second)
	for range 200 {
		now = now.Add(time.Second)
		d.heartbeat(now, 3*time.Second)
	}
	if len(d.intervals) != maxIntervals || d.deviation != minDeviation {
		t.Errorf("got %d intervals, deviation %v", len(d.intervals), d.deviation)
	}
	before := d.suspectAt(phiInverse(8), time.Second).Sub(now)
	now = now.Add(time.Minute)
	d.heartbeat(now, 3*time.Second)
	if after := d.suspectAt(phiInverse(8), time.Second).Sub(now); after != before {
		t.Errorf("suspicion after %v, before the outage after %v", after, before)
	}
}

func members(n int) []Member {
	list := make([]Member, n)
	for i := range list {
		list[i] = Member{Address: addr(fmt.Sprintf("node-%03d", i), uint64(i+1)), Status: Up, UpNumber: uint32(i + 1)}
	}
	return list
}

var oneSuffices = evidenceRule{DetectionSingleObserver, 5}

func evidenceIn(g *Gossip) []Evidence {
	evidence, _ := g.weighRows(oneSuffices, newRing(g.Members))
	return evidence
}

func watchedBy(g *Gossip, self transport.Address) []transport.Address {
	return g.neighbours(self, 5, newRing(g.Members), evidenceIn(g))
}

// TestRingCoversAll: everybody is watched by as many as watch, and the
// ring does not fall apart.
func TestRingCoversAll(t *testing.T) {
	for _, n := range []int{1, 2, 5, 6, 7, 30, 200} {
		g := &Gossip{Members: members(n)}
		watchers := map[transport.Address]int{}
		for _, m := range g.Members {
			for _, w := range watchedBy(g, m.Address) {
				watchers[w]++
			}
		}
		want := min(5, n-1)
		for _, m := range g.Members {
			if watchers[m.Address] != want {
				t.Errorf("%d members: %v has %d watchers, want %d", n, m.Address, watchers[m.Address], want)
			}
		}
	}
}

// TestRingSkipsUnreachable: who cannot be reached is watched and not counted.
func TestRingSkipsUnreachable(t *testing.T) {
	g := &Gossip{Members: members(12)}
	self := g.Members[0].Address
	before := watchedBy(g, self)
	other := g.Members[1].Address
	if other == before[0] {
		other = g.Members[2].Address
	}
	g.Rows = withRecord(nil, other, Record{Subject: before[0], Evidence: EvidenceSilent})
	after := watchedBy(g, self)
	if len(after) != 6 || !slices.Equal(after[:5], before) {
		t.Errorf("got %v, want one more than %v", after, before)
	}
	i, _ := g.place(before[0])
	g.Members[i].Status = Down
	if down := watchedBy(g, self); len(down) != 5 || slices.Contains(down, before[0]) {
		t.Errorf("got %v, want five without %v, who is Down", down, before[0])
	}
}

func TestRecordsOfDownObserversCountForNothing(t *testing.T) {
	list := members(3)
	g := &Gossip{Members: list, Rows: withRecord(nil, list[0].Address, Record{Subject: list[2].Address, Evidence: EvidenceCut})}
	if e := evidenceIn(g)[2]; e != EvidenceCut {
		t.Errorf("got %v, want cut", e)
	}
	list[0].Status = Down
	if e := evidenceIn(g)[2]; e != NoEvidence {
		t.Errorf("got %v, want none: the observer is Down", e)
	}
}

// TestToUnseen: up to so many members the configured share, a quarter from four
// times as many on.
func TestToUnseen(t *testing.T) {
	for _, c := range []struct {
		share   float64
		many    int
		members int
		want    float64
	}{
		{0, 0, 1, 0.8},
		{0, 0, 400, 0.8},
		{0, 0, 1000, 0.5},
		{0, 0, 1600, 0.2},
		{0, 0, 5000, 0.2},
		{1, 100, 100, 1},
		{1, 100, 250, 0.625},
		{1, 100, 400, 0.25},
	} {
		m, err := New(Config{Self: addr("a", 1), GossipToUnseen: c.share, GossipManyMembers: c.many})
		if err != nil {
			t.Fatal(err)
		}
		m.gossip = &Gossip{Members: members(c.members)}
		if got := m.toUnseen(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d members, share %v up to %d: got %v, want %v", c.members, c.share, c.many, got, c.want)
		}
	}
}

// TestGossipSpeedup: while under half have seen the version, rounds come so many
// times as fast.
func TestGossipSpeedup(t *testing.T) {
	start := time.Unix(1_000, 0)
	for speedup, want := range map[int]time.Duration{0: time.Second, 1: 3 * time.Second, 6: time.Second / 2} {
		m, err := New(Config{Self: addr("a", 1), GossipInterval: 3 * time.Second, GossipSpeedup: speedup})
		if err != nil {
			t.Fatal(err)
		}
		m.now, m.gossip = start, &Gossip{Members: members(10)}
		m.runGossip()
		if got := m.spreading.gossipAt.Sub(start); got != want {
			t.Errorf("speed-up %d: the next round is after %v, want %v", speedup, got, want)
		}
	}
}
