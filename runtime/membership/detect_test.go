package membership

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
)

func TestPhi(t *testing.T) {
	start := time.Unix(0, 0)
	d := detector.NewPhiDetector(start, time.Second)
	if d.Mean != 1 || d.Deviation != 0.25 {
		t.Fatalf("got mean %v deviation %v, want 1 and a quarter", d.Mean, d.Deviation)
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
		if got := d.Phi(start.Add(c.after), c.pause); math.Abs(got-c.want) > 1e-3 && got != c.want {
			t.Errorf("after %v with pause %v: got %v, want %v", c.after, c.pause, got, c.want)
		}
	}
	previous := -1.0
	for ms := 0; ms < 10_000; ms += 10 {
		got := d.Phi(start.Add(time.Duration(ms)*time.Millisecond), time.Second)
		if got < previous || math.IsNaN(got) {
			t.Fatalf("after %d ms: %v, after %v before", ms, got, previous)
		}
		previous = got
	}
}

func TestPhiInverse(t *testing.T) {
	for _, threshold := range []float64{0.1, 1, 8, 12, 16, 100, 300} {
		y := detector.PhiInverse(threshold)
		if below, at := detector.PhiOf(y-1e-9), detector.PhiOf(y); below >= threshold || at < threshold {
			t.Errorf("threshold %v: y %v has %v, just below it %v", threshold, y, at, below)
		}
	}
}

// TestPhiForgetsOutages: the interval that ended an outage does not count. Otherwise it would delay
// the detection of the next outage.
func TestPhiForgetsOutages(t *testing.T) {
	now := time.Unix(0, 0)
	d := detector.NewPhiDetector(now, time.Second)
	for range 200 {
		now = now.Add(time.Second)
		d.Heartbeat(now, 3*time.Second)
	}
	if len(d.Intervals) != detector.MaxIntervals || d.Deviation != detector.MinDeviation {
		t.Errorf("got %d intervals, deviation %v", len(d.Intervals), d.Deviation)
	}
	before := d.SuspectAt(detector.PhiInverse(8), time.Second).Sub(now)
	now = now.Add(time.Minute)
	d.Heartbeat(now, 3*time.Second)
	if after := d.SuspectAt(detector.PhiInverse(8), time.Second).Sub(now); after != before {
		t.Errorf("suspicion after %v, before the outage after %v", after, before)
	}
}

// TestToUnseen: the configured share applies up to GossipManyMembers members, and a quarter of it
// from four times as many.
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
		m, err := New(core.Config{Self: addr("a", 1), GossipToUnseen: c.share, GossipManyMembers: c.many})
		if err != nil {
			t.Fatal(err)
		}
		m.node.Gossip = &gossip.State{Members: members(c.members)}
		if got := m.spreader.ToUnseen(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d members, share %v up to %d: got %v, want %v", c.members, c.share, c.many, got, c.want)
		}
	}
}

// TestGossipSpeedup: while fewer than half of the members have seen the version, GossipSpeedup
// rounds fit in an interval.
func TestGossipSpeedup(t *testing.T) {
	start := time.Unix(1_000, 0)
	for speedup, want := range map[int]time.Duration{0: time.Second, 1: 3 * time.Second, 6: time.Second / 2} {
		m, err := New(core.Config{Self: addr("a", 1), GossipInterval: 3 * time.Second, GossipSpeedup: speedup})
		if err != nil {
			t.Fatal(err)
		}
		m.node.Now, m.node.Gossip = start, &gossip.State{Members: members(10)}
		m.spreader.RunGossip()
		if got := m.broadcaster.GossipAt.Sub(start); got != want {
			t.Errorf("speed-up %d: the next round is after %v, want %v", speedup, got, want)
		}
	}
}

func members(n int) []gossip.Member {
	list := make([]gossip.Member, n)
	for i := range list {
		list[i] = gossip.Member{Address: addr(fmt.Sprintf("node-%03d", i), uint64(i+1)), Status: gossip.Up, UpNumber: uint32(i + 1)}
	}
	return list
}
