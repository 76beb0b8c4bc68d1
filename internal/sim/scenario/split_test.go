package scenario

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// TestSplits: however a large cluster is split, the side with the majority removes exactly the
// other side, and the other side stops. Without a majority all stop. A split that ends before it is
// judged removes no member. Nodes are named in the order of their servers, so the leader is at the
// first server.
func TestSplits(t *testing.T) {
	const minute, blink = time.Minute, 8 * time.Second
	for _, test := range []struct {
		name    string
		lasting time.Duration
		groups  [][]int
		within  time.Duration // the time within which the victims are removed; 0 means never
		stops   bool          // all stop, because the last group has no majority either
	}{
		{"two fifths with the leader", minute, [][]int{{0, 1}, {2, 3, 4}}, 30 * time.Second, false},
		{"two fifths without the leader", minute, [][]int{{3, 4}, {0, 1, 2}}, 30 * time.Second, false},
		{"a tenth with the leader", minute, [][]int{{0}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, 30 * time.Second, false},
		{"a tenth without the leader", minute, [][]int{{9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}}, 30 * time.Second, false},
		{"three parts", minute, [][]int{{0}, {1}, {2, 3, 4}}, 30 * time.Second, false},
		{"three parts without a majority", minute, [][]int{{0, 1}, {2, 3}, {4}}, 0, true},
		{"two fifths for a moment", blink, [][]int{{0, 1}, {2, 3, 4}}, 0, false},
		{"a tenth for a moment", blink, [][]int{{0}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, 0, false},
		{"three parts for a moment", blink, [][]int{{0, 1}, {2, 3}, {4}}, 0, false},
	} {
		for _, detection := range []membership.Detection{membership.DetectionManyEdges, membership.DetectionSingleObserver} {
			t.Run(fmt.Sprintf("%s/%v", test.name, detection), func(t *testing.T) {
				t.Parallel()
				servers := 0
				for _, group := range test.groups {
					servers += len(group)
				}
				var r *run
				got := Scenario{
					Name: "split", world: sim.Config{Servers: servers, RouteTimeout: 90 * time.Second},
					do: func(it *run) {
						r = it
						r.formed()
						r.split(test.lasting, test.groups...)
					},
				}.Run(Options{Nodes: 30, Seed: 5, Config: func(c *membership.Config) {
					c.SmallCluster, c.Detection = 8, detection
				}})
				checkSplit(t, r, got, test.within, test.stops)
			})
		}
	}
}

// checkSplit checks the state at the end of a run.
func checkSplit(t *testing.T, r *run, got Result, within time.Duration, stops bool) {
	t.Helper()
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	running := 0
	for _, n := range r.nodes {
		victim := r.ill[n.Address]
		switch ended := n.Ended(); {
		case ended && !victim && !stops:
			t.Errorf("%v, who is on the larger side, has stopped: %v", n.Address, n.Last())
		case ended && victim && within == 0 && !stops:
			t.Errorf("%v has stopped, and there was nothing to be judged: %v", n.Address, n.Last())
		case !ended && (stops || within > 0 && victim):
			t.Errorf("%v goes on", n.Address)
		case !ended:
			running++
		}
	}
	if stops {
		return
	}
	if set, size := r.healthy()[0].Set(); size != running {
		t.Errorf("the view has %d members (%x), and %d run", size, set, running)
	}
	if got.Removed != 0 || got.Settled < 0 {
		t.Errorf("%d healthy ones removed, settled %v", got.Removed, got.Settled)
	}
	if within > 0 && (got.Detected != got.Expected || got.P99 > within) {
		t.Errorf("%d of %d sights of a victim's removal, the last after %v; want all within %v", got.Detected, got.Expected, got.P99, within)
	}
}

// TestSplitsOtherwise: under other downing strategies than the default, the side of a large cluster
// that the strategy chooses goes on, even without the leader. The store of the lease is at the
// first server.
func TestSplitsOtherwise(t *testing.T) {
	for way, groups := range map[membership.Downing][][]int{
		membership.DowningKeepMajority:  {{0, 1}, {2, 3, 4}},
		membership.DowningStaticQuorum:  {{0, 1}, {2, 3, 4}},
		membership.DowningLeaseMajority: {{1, 2}, {0, 3, 4}},
	} {
		t.Run(way.String(), func(t *testing.T) {
			t.Parallel()
			var r *run
			got := Scenario{Name: "split", world: fiveServers, do: func(it *run) {
				r = it
				r.formed()
				r.split(75*time.Second, groups...)
			}}.Run(Options{Nodes: 30, Seed: 5, Config: func(c *membership.Config) {
				c.SmallCluster, c.Downing = 8, way
				if way == membership.DowningStaticQuorum {
					c.QuorumSize = 16
				}
			}})
			checkSplit(t, r, got, 60*time.Second, false)
		})
	}
}

// TestLeasesLast: in a large cluster without faults no lease ever lapses.
func TestLeasesLast(t *testing.T) {
	Scenario{Name: "leases", do: func(r *run) {
		r.formed()
		r.world.RunUntil(20*time.Second, 10*time.Millisecond, func() bool {
			for _, n := range r.nodes {
				if !r.world.Lease(n) {
					t.Errorf("the lease of %v has lapsed at %v", n.Address, r.world.Now())
				}
			}
			return t.Failed()
		})
	}}.Run(Options{Nodes: 60, Seed: 7})
}
