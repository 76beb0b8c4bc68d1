package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestQueue: events come in the order of their times. Events of one time come in the order of put.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q queue
	var at time.Duration
	last := int32(-1)
	held, put := 0, int32(0)
	for range 20_000 {
		if held > 0 && r.IntN(5) < 2 {
			when, e := q.take()
			held--
			if when < at || when == at && e.size < last {
				t.Fatalf("took %v/%d after %v/%d", when, e.size, at, last)
			}
			at, last = when, e.size
			continue
		}
		q.put(at+time.Duration(r.IntN(50)), eventCall).size = put
		held++
		put++
	}
}

// TestWakes: the node with the earliest wake time is next, also after wake times have changed.
func TestWakes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var h wakes
	nodes := make([]*Node, 40)
	for i := range nodes {
		nodes[i] = &Node{ID: i, place: -1}
	}
	for range 5000 {
		h.set(nodes[r.IntN(len(nodes))], time.Duration(r.IntN(100))-10)
		var want *Node
		for _, n := range nodes {
			if n.place >= 0 && (want == nil || wakesBefore(n, want)) {
				want = n
			}
		}
		if got := h.next(); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

// TestClock: virtual returns a time at which the clock shows the given time, or a little more.
func TestClock(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		c := clock{r.IntN(20_001) - 10_000, time.Duration(r.Int64N(int64(1000 * time.Hour)))}
		want := c.local(time.Duration(r.Int64N(int64(time.Hour)))).Add(time.Duration(r.IntN(1000)))
		at := c.virtual(want, 0)
		if c.local(at).Before(want) || !c.local(at-20*time.Microsecond).Before(want) {
			t.Fatalf("clock %+v: got %v for %v, and shows %v then", c, at, want, c.local(at))
		}
	}
}

// TestSlowClockGoesBack: a slow clock goes back, and a little later shows the same time again. A
// node that waits for that time must not be woken for ever. Found by seed 20007770 of the scenario
// "random".
func TestSlowClockGoesBack(t *testing.T) {
	for ppm := -10_000; ppm < 0; ppm++ {
		c := clock{ppm: ppm}
		now := 60 * time.Second
		want := c.local(now - 1)
		if at := c.virtual(want, now); at < now || c.local(at).Before(want) || at > now+20*time.Microsecond {
			t.Fatalf("clock %+v: got %v for %v, and shows %v then", c, at, want, c.local(at))
		}
	}
}

// TestSizes: the counted size of a message is the size that the driver would send.
func TestSizes(t *testing.T) {
	a, b := transport.Address{Name: "alpha", Incarnation: 1}, transport.Address{Name: "be", Incarnation: 2}
	g := gossip.Preformed([]membership.Member{{Address: a}, {Address: b}})
	s := newSizes("sim")
	for _, msg := range []membership.Message{
		message.Heartbeat{Target: uint32(b.Incarnation), Seq: 300, Server: 77},
		message.Echo{Seq: 7},
		message.Alive{Founder: a, Size: 2, Server: 77},
		message.Gossip{Target: uint32(b.Incarnation), State: g},
		message.Gossip{Target: uint32(b.Incarnation), State: g}, // from the cache
		message.Welcome{Target: uint32(b.Incarnation), State: g},
		message.JoinRefused{Target: uint32(b.Incarnation), Reason: strings.Repeat("long ", 100)},
	} {
		body, err := membership.Encode(msg)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := proto.Marshal(&wire.Control{
			Format: 1, Cluster: "sim", From: a.Name, Incarnation: a.Incarnation,
			Topic: wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, Body: body,
		})
		if err != nil {
			t.Fatal(err)
		}
		if size := s.of(&Node{Address: a}, msg); int(size) != len(sealed) {
			t.Errorf("%T: counted %d bytes, the driver sends %d", msg, size, len(sealed))
		}
	}
}

// TestMoves checks the invariants about successive states of one node.
func TestMoves(t *testing.T) {
	a, b, c := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 2}, transport.Address{Name: "c", Incarnation: 3}
	state := func(change func(*gossip.State)) *gossip.State {
		g := gossip.Preformed([]membership.Member{{Address: a}, {Address: b}})
		change(g)
		return g
	}
	plain := state(func(*gossip.State) {})
	for _, test := range []struct {
		name     string
		was, now *gossip.State
		want     string // part of the error; empty means none
	}{
		{"same", plain, plain, ""},
		{"downed", plain, state(func(g *gossip.State) { g.Members[1].Status = membership.Down }), ""},
		{"up again", state(func(g *gossip.State) { g.Members[1].Status = membership.Leaving }), plain, "invariant 3"},
		{"fenced no more", state(func(g *gossip.State) {
			g.Members[1].Status, g.Members[1].Fenced = membership.Down, true
		}), state(func(g *gossip.State) { g.Members[1].Status = membership.Down }), "invariant 3"},
		{"gone without a word", plain, state(func(g *gossip.State) { g.Members = g.Members[:1] }), "invariant 4"},
		{"one age twice", plain, state(func(g *gossip.State) {
			g.Members = append(g.Members, membership.Member{Address: c, Status: membership.Up, UpNumber: 2})
		}), "invariant 5"},
		{"counter falls", state(func(g *gossip.State) { g.UpCounter = 9 }), plain, "invariant 6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := New(Config{})
			n := &Node{Address: a, removed: make(map[transport.Address]bool)}
			if err := (checker{w}).checkMoves(n, nil, test.was); err != nil {
				t.Fatal(err)
			}
			err := checker{w}.checkMoves(n, test.was, test.now)
			if got := ""; err == nil && test.want != got || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestComeback: a node that has removed a process must not have it as a member again.
func TestComeback(t *testing.T) {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 2}
	both := gossip.Preformed([]membership.Member{{Address: a}, {Address: b}})
	alone := *both
	alone.Members = both.Members[:1]
	alone.RemovalCounter, alone.Tombstones = 1, []gossip.Tombstone{{Node: b, Number: 1}}
	back := *both
	back.RemovalCounter = 1
	w := New(Config{})
	n := &Node{Address: a, removed: make(map[transport.Address]bool)}
	if err := (checker{w}).checkMoves(n, both, &alone); err != nil {
		t.Fatal(err)
	}
	if err := (checker{w}).checkMoves(n, &alone, &back); err == nil || !strings.Contains(err.Error(), "invariant 4") {
		t.Errorf("got %v, want invariant 4", err)
	}
}

// TestAges: two members with one age are an error, unless one of the leaders that gave the age had
// been downed. This holds even if no state has ever shown that leader Down.
func TestAges(t *testing.T) {
	a, b, c, d := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 2}, transport.Address{Name: "c", Incarnation: 3}, transport.Address{Name: "d", Incarnation: 4}
	third := func(who transport.Address) membership.Member {
		return membership.Member{Address: who, Status: membership.Up, UpNumber: 3}
	}
	for _, test := range []struct {
		name string
		gone []gossip.Tombstone // the tombstones at b when it gives the age
		want string
	}{
		{"two leaders", nil, "invariant 5"},
		{"one of them left", []gossip.Tombstone{{Node: a, Number: 1, Left: true}}, "invariant 5"},
		{"one of them was removed", []gossip.Tombstone{{Node: a, Number: 1}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := New(Config{})
			before := gossip.Preformed([]membership.Member{{Address: a}, {Address: b}})
			byB := *before
			byB.Members, byB.Tombstones = append(byB.Members[1:2:2], third(c)), test.gone
			byA := *before
			byA.Members = append(byA.Members[:2:2], third(d))
			if err := (checker{w}).checkAges(&Node{Address: b}, &byB); err != nil {
				t.Fatal(err)
			}
			err := checker{w}.checkAges(&Node{Address: a}, &byA)
			if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestFence: it breaks an invariant if a member has a lease and another member counts it as fenced.
func TestFence(t *testing.T) {
	w, nodes := cluster(t, Config{Seed: 2}, 3)
	if !w.Lease(nodes[1]) {
		t.Fatal("a member that is well has no lease")
	}
	checker{w}.fence(nodes[0], nodes[1].Address, nodes[0].gossip().Founder)
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "invariant 2") {
		t.Errorf("got %v, want invariant 2", err)
	}
}

// TestFenceEndsWithThoseThatHoldIt: a member stands still while the others remove it. If it runs
// turns again after all of these have ended, it breaks no invariant. (Singletons' seed 905390.)
func TestFenceEndsWithThoseThatHoldIt(t *testing.T) {
	w, nodes := cluster(t, Config{Seed: 2}, 3)
	w.Freeze(nodes[2])
	removed := func() bool {
		for _, n := range nodes[:2] {
			if _, ok := n.gossip().Member(nodes[2].Address); ok {
				return false
			}
		}
		return true
	}
	if !w.RunUntil(time.Minute, 10*time.Millisecond, removed) {
		t.Fatal("the others keep it", w.Err())
	}
	if !(checker{w}).doneWithout(nodes[2]) {
		t.Error("two go on without it, and that is not seen")
	}
	w.Kill(nodes[0])
	if !(checker{w}).doneWithout(nodes[2]) {
		t.Error("one goes on without it, and that is not seen")
	}
	w.Kill(nodes[1])
	if (checker{w}).doneWithout(nodes[2]) {
		t.Error("the ended go on without it")
	}
}

// TestOldestComesBackAlone: of two members, the oldest stands still until the server closes its
// connection, and the other removes it as gone. When the oldest comes back and cannot reach the
// other, it must not go on because of its age. It must go on if the other could not have found it
// gone, or has vouched for it since.
func TestOldestComesBackAlone(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers int
		fault   func(w *World, oldest, other *Node)
		goesOn  bool
	}{
		{"removed by the other", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.RunUntil(time.Minute, 10*time.Millisecond, func() bool { _, n := other.Set(); return n == 1 })
			w.Lose(other, 1, 1)
			w.Thaw(oldest)
		}, false},
		{"removed by the other, which stands still", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.RunUntil(time.Minute, 10*time.Millisecond, func() bool { _, n := other.Set(); return n == 1 })
			w.Freeze(other)
			w.Thaw(oldest)
		}, false},
		{"the other was at another server", 2, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.Run(8 * time.Second)
			w.Part(w.Servers()[0], w.Servers()[1])
			w.Thaw(oldest)
		}, true},
		{"the server restarts", 1, func(w *World, _, other *Node) {
			w.StopServer(w.Servers()[0])
			w.Run(8 * time.Second)
			w.KillHost(other)
			w.StartServer(w.Servers()[0])
		}, true},
		{"the other has counted on it since", 1, func(w *World, oldest, other *Node) {
			w.Freeze(oldest)
			w.Run(5500 * time.Millisecond)
			w.Thaw(oldest)
			w.Run(10 * time.Second)
			w.Lose(other, 1, 1)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, nodes := cluster(t, Config{Seed: 5, Servers: test.servers, HostTimeout: 5 * time.Second}, 2)
			test.fault(w, nodes[0], nodes[1])
			w.Run(time.Minute)
			if w.Err() != nil {
				t.Fatal(w.Err())
			}
			if goesOn := !nodes[0].Ended(); goesOn != test.goesOn {
				t.Errorf("the oldest goes on: %v, want %v (%v)", goesOn, test.goesOn, nodes[0].Last())
			}
			if test.goesOn && !w.Lease(nodes[0]) {
				t.Error("the oldest has no lease")
			}
		})
	}
}

// TestMovesBehindAPartition: a member moves to another server within GoneAfter, and its former
// server cannot reach the new one. The others find it gone, and from then on it runs no turns. This
// holds for any number of other members, and whether or not it is the oldest.
func TestMovesBehindAPartition(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for mover := range 2 {
			w, nodes := cluster(t, Config{Servers: 2}, n)
			s := w.Servers()
			for _, n := range nodes {
				if n.server != s[0] {
					w.Move(n, s[0])
				}
			}
			w.Run(20 * time.Second)
			w.Part(s[0], s[1])
			w.Move(nodes[mover], s[1])
			w.Run(time.Minute)
			if w.Err() != nil {
				t.Fatalf("%v of %d moves: %v", nodes[mover].Address, n, w.Err())
			}
			for i, o := range nodes {
				if o.Ended() != (i == mover) {
					t.Errorf("%v of %d moves, and %v has ended: %v (%v)", nodes[mover].Address, n, o.Address, o.Ended(), o.Last())
				}
			}
		}
	}
}

// TestMoveKeepsLease: when a server stops, its members move to others. No lease runs out, except
// that of a member that stands still meanwhile.
func TestMoveKeepsLease(t *testing.T) {
	for _, n := range []int{3, 20, 60} {
		w, nodes := cluster(t, Config{Servers: 3, Failover: true}, n)
		w.Run(10 * time.Second)
		w.StopServer(w.Servers()[0])
		w.Freeze(nodes[1])
		w.After(2500*time.Millisecond, func() { w.Thaw(nodes[1]) })
		for range 1000 {
			w.Run(5 * time.Millisecond)
			for _, o := range nodes {
				if o != nodes[1] && !w.Lease(o) {
					t.Fatalf("of %d, %v has no lease: %v", n, o.Address, w.Err())
				}
			}
		}
	}
}
