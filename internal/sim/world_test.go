package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// cluster starts nodes n0, n1, … on the servers in turn and waits until all are Up.
func cluster(t *testing.T, config Config, nodes int) (*World, []*Node) {
	t.Helper()
	w := New(config)
	var all []*Node
	for i := range nodes {
		n, err := w.Add(membership.Config{Self: transport.Address{Name: fmt.Sprint("n", i), Incarnation: uint64(i + 1)}, Seed: uint64(i)},
			Place{Server: i % len(w.Servers()), Drift: 50 * i, Offset: time.Duration(i) * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
		w.Start(n)
	}
	if !w.RunUntil(10*time.Second, 10*time.Millisecond, func() bool { return Agreed(all) }) {
		t.Fatalf("not up: %v", w.Err())
	}
	w.Run(2 * time.Second) // heartbeats have named each node's server to the others
	return w, all
}

// TestEvidence: each fault gives other nodes the same evidence as over a real broker.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w *World, n *Node)
		want  membership.Evidence // the first evidence against n0, or NoEvidence
		after time.Duration       // the earliest time for it
		until time.Duration
	}{
		{"kill", (*World).Kill, membership.EvidenceGone, time.Second, 3 * time.Second},
		{"host", (*World).KillHost, membership.EvidenceSilent, 3 * time.Second, 10 * time.Second},
		{"freeze", (*World).Freeze, membership.EvidenceSilent, 3 * time.Second, 10 * time.Second},
		{"deaf", func(w *World, n *Node) { w.Lose(n, 1, 0) }, membership.EvidenceSilent, 3 * time.Second, 10 * time.Second},
		{"short pause", func(w *World, n *Node) {
			w.Freeze(n)
			w.After(2*time.Second, func() { w.Thaw(n) })
		}, membership.NoEvidence, 0, 10 * time.Second},
		{"some loss", func(w *World, n *Node) { w.Lose(n, 0.1, 0.1) }, membership.NoEvidence, 0, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Two nodes are at each server, so that one can find the other gone.
			w, nodes := cluster(t, Config{Seed: 5, Servers: 2}, 5)
			begin := w.Now()
			got, at := membership.NoEvidence, time.Duration(0)
			w.OnEvents = func(n *Node, events []membership.Event) {
				for _, e := range events {
					if e, ok := e.(membership.UnreachableMember); ok && e.Member.Address == nodes[0].Address && got == membership.NoEvidence && e.Evidence != membership.EvidenceCut {
						got, at = e.Evidence, w.Now()-begin
					}
				}
			}
			c.fault(w, nodes[0])
			w.Run(c.until)
			if got != c.want || at < c.after {
				t.Errorf("got %v after %v, want %v after %v at the earliest", got, at, c.want, c.after)
			}
			if w.Err() != nil {
				t.Error(w.Err())
			}
		})
	}
}

// TestCut: messages that vanish between two servers look like silence until their connection ends.
// Then neither server knows listeners at the other one.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		want    membership.Evidence
	}{{500 * time.Millisecond, membership.EvidenceCut}, {time.Minute, membership.EvidenceSilent}} {
		w, nodes := cluster(t, Config{Seed: 5, Servers: 2, RouteTimeout: c.timeout}, 6)
		var first membership.Evidence
		w.OnEvents = func(n *Node, events []membership.Event) {
			for _, e := range events {
				if e, ok := e.(membership.UnreachableMember); ok && first == membership.NoEvidence {
					first = e.Evidence
				}
			}
		}
		a, b := nodes[0].Server(), nodes[1].Server()
		w.Cut(a, b)
		if w.Whole() {
			t.Error("cut, and whole")
		}
		w.Run(20 * time.Second)
		if first != c.want {
			t.Errorf("route lasts %v: got %v first, want %v", c.timeout, first, c.want)
		}
		w.Mend(a, b)
		w.Run(time.Second)
		if !w.Whole() {
			t.Error("mended, and not whole")
		}
	}
}

// TestServerRestart: the nodes of a restarted server connect to a server of another name, and no
// node is removed.
func TestServerRestart(t *testing.T) {
	w, nodes := cluster(t, Config{Seed: 3, Servers: 1}, 4)
	s := w.Servers()[0]
	before := s.id
	w.StopServer(s)
	w.Run(20 * time.Second)
	for _, n := range nodes {
		if n.Connected() {
			t.Errorf("%v is connected to a server that is down", n.Address)
		}
	}
	w.StartServer(s)
	if !w.RunUntil(5*time.Second, 100*time.Millisecond, func() bool { return Agreed(nodes) }) {
		t.Errorf("not one view 5 s after the broker is back: %v", w.Err())
	}
	if s.id == before {
		t.Errorf("the new instance is named %s like the one before", s.id)
	}
}

// TestHash: two runs of a seed have the same hash, and runs of different seeds have different ones.
func TestHash(t *testing.T) {
	hash := func(seed uint64) uint64 {
		w, nodes := cluster(t, Config{Seed: seed, Servers: 3, Jitter: 5 * time.Millisecond, Recode: true}, 7)
		w.Lose(nodes[2], 0.5, 0.5)
		w.Freeze(nodes[4])
		w.Run(4 * time.Second)
		w.Thaw(nodes[4])
		w.Kill(nodes[0])
		w.Run(10 * time.Second)
		if w.Err() != nil {
			t.Error(w.Err())
		}
		return w.Hash()
	}
	first, again, other := hash(1), hash(1), hash(2)
	if first != again {
		t.Errorf("one seed: %016x and %016x", first, again)
	}
	if first == other {
		t.Errorf("two seeds: both %016x", first)
	}
}

// TestLastMessages: a process that ends by itself waits until the broker has its last messages. A
// killed process does not.
func TestLastMessages(t *testing.T) {
	w := New(Config{Seed: 1, Latency: time.Millisecond})
	var nodes []*Node
	for i := range 4 {
		n, err := w.Add(membership.Config{
			Self: transport.Address{Name: fmt.Sprint("n", i), Incarnation: 1}, Seed: uint64(i),
			Downing: membership.DowningAll, SmallCluster: 1, StableAfter: 5 * time.Second,
		}, Place{})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
		w.Start(n)
	}
	if !w.RunUntil(10*time.Second, 10*time.Millisecond, func() bool { return Agreed(nodes) }) {
		t.Fatalf("not up: %v", w.Err())
	}
	w.Run(2 * time.Second)
	w.Give(nodes[3], membership.DownNode{Node: nodes[2].Address})
	w.Kill(nodes[3]) // the message of the killed node is on its way
	w.Run(time.Second)
	if nodes[2].Ended() {
		t.Error("the message of a killed process arrived")
	}
	var ends []time.Duration
	w.OnEnd = func(*Node, membership.Event) { ends = append(ends, w.Now()) }
	w.Run(20 * time.Second)
	if len(ends) != 3 || ends[2]-ends[0] > 10*time.Millisecond {
		t.Errorf("the leader has downed all, and they ended after %v", ends)
	}
}

// TestLease: the lease that decides splits goes to one node and stays with it. Another node gets
// the lease after it has ended, or if that node knows the token.
func TestLease(t *testing.T) {
	w, nodes := cluster(t, Config{Seed: 1}, 3)
	ask := func(n *Node, over uint64) uint64 {
		return leaseStore{w}.take(n, membership.LeaseRequest{Founder: nodes[0].Address, TTL: 10 * time.Second, Over: over})
	}
	for i, step := range []struct {
		node int
		over uint64
		wait time.Duration
		want uint64
	}{
		{0, 0, 0, 1},
		{0, 0, 0, 1},
		{1, 0, 0, 0},
		{1, 1, 0, 2},
		{2, 1, 0, 0},
		{1, 1, 0, 2},
		{1, 2, 0, 3},
		{2, 2, 0, 0},
		{2, 0, 11 * time.Second, 4},
	} {
		w.Run(step.wait)
		if got := ask(nodes[step.node], step.over); got != step.want {
			t.Errorf("step %d: got token %d, want %d", i, got, step.want)
		}
	}
}
