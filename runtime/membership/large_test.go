package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// TestLargeClusters: all nodes come up. A mass failure removes the failed nodes and no other node.
// Leases never lapse, and an idle cluster sends few messages.
func TestLargeClusters(t *testing.T) {
	for _, c := range []struct{ size, small int }{{8, 0}, {8, 3}, {20, 0}, {20, 5}, {60, 0}} {
		size := c.size
		t.Run(fmt.Sprintf("%d/%d", size, c.small), func(t *testing.T) {
			if size > 50 && *randomSeeds < 1000 {
				t.Skip("takes long: run with -seeds 1000")
			}
			w := newNetwork(t)
			w.plain = true
			// A check after each step of so many nodes would take minutes.
			now := func(every time.Duration, stop func() bool) func() bool {
				next := w.now
				return func() bool {
					if w.now.Before(next) {
						return false
					}
					next = w.now.Add(every)
					return stop()
				}
			}
			for i := range size {
				name := fmt.Sprintf("n%02d", i)
				n := w.add(name, fmt.Sprintf("s%d", 1+i%3), core.Config{Cluster: "test", Self: addr(name, uint64(i+1)), Seed: uint64(i), SmallCluster: c.small})
				n.quiet = true
				w.start(n)
			}
			var nodes []*simNode
			for _, key := range w.order {
				nodes = append(nodes, w.nodes[key])
			}
			if !w.run(15*time.Second, now(5*time.Millisecond, func() bool { return w.converged(nodes) })) {
				t.Fatalf("%d nodes did not come up in 15s: %+v", size, nodes[0].machine.View().Why)
			}
			t.Logf("up after %v with %d messages", w.now.Sub(w.origin), w.sent)
			w.run(10*time.Second, nil)

			w.sent = 0
			w.run(10*time.Second, now(50*time.Millisecond, func() bool {
				for _, n := range nodes {
					if lease := n.machine.Lease(); !lease.After(w.now) {
						t.Fatalf("at %v the lease of %v is over", w.now.Sub(w.origin), n.config.Self)
					}
				}
				return false
			}))
			// Heartbeats there and back to five neighbours at most twice a second,
			// three echoes, a round of gossip, a broadcast.
			if perNode := w.sent / size / 10; perNode > 30 {
				t.Errorf("idle: %d messages a second from each node", perNode)
			}

			failed := size / 5
			var rest []*simNode
			for i, n := range nodes {
				if i < failed {
					n.dead, n.connected = true, false
				} else {
					rest = append(rest, n)
					n.events = nil
				}
			}
			begin := w.now
			if !w.run(15*time.Second, now(5*time.Millisecond, func() bool { return w.converged(rest) })) {
				t.Fatalf("%d of %d died, not one view after 15s: %v", failed, size, rest[0].machine.View().Why)
			}
			t.Logf("%d removed after %v", failed, w.now.Sub(begin))
			for _, n := range rest {
				for _, e := range n.events {
					if e, ok := e.(core.MemberDowned); ok && !w.nodes[e.Member.Name].dead {
						t.Errorf("%v: %v, who is well", n.config.Self, e)
					}
				}
			}
		})
	}
}

// TestAccusingObserverAsks: in a large cluster an observer with a record against a member keeps
// sending it heartbeats, even if it does not watch the member. No other node can withdraw the
// record.
func TestAccusingObserverAsks(t *testing.T) {
	list := members(20)
	m, err := New(core.Config{Cluster: "test", Self: list[0].Address, SmallCluster: 2})
	if err != nil {
		t.Fatal(err)
	}
	g := gossip.Preformed(list)
	now := time.Unix(1000, 0)
	m.Step(now, core.ConnState{Connected: true, Server: "s1"})
	m.Preform(now, g)
	asked := func() (nodes []transport.Address) {
		for range 20 { // 2 s: soon it will miss all others
			now = now.Add(100 * time.Millisecond)
			for _, e := range m.Step(now, core.Tick{}).Send {
				switch e.Message.(type) {
				case message.Heartbeat:
					nodes = append(nodes, e.To)
				case message.Echo:
					m.Step(now, core.Receive{From: list[0].Address, Message: e.Message})
				}
			}
		}
		return nodes
	}
	asked()
	var stranger transport.Address // who is not watched
	for _, r := range list[1:] {
		if !m.beats.Watches(r.Address) {
			stranger = r.Address
		}
	}
	if slices.Contains(asked(), stranger) {
		t.Fatalf("%v is asked, and not watched", stranger)
	}
	m.suspicion.MarkAs(stranger, gossip.EvidenceCut, 0)
	if !slices.Contains(asked(), stranger) {
		t.Errorf("%v is accused, and not asked", stranger)
	}
}

// TestEchoAcrossReconnect: an echo proves nothing that was sent before the node knew that its connection
// had broken: it may have gone through the next one.
func TestEchoAcrossReconnect(t *testing.T) {
	list := members(3)
	m, err := New(core.Config{Cluster: "test", Self: list[0].Address})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	m.Step(now, core.ConnState{Connected: true, Server: "s1"})
	m.Preform(now, gossip.Preformed(list))
	for _, e := range m.Step(now, core.Tick{}).Send {
		if echo, ok := e.Message.(message.Echo); ok {
			m.Step(now, core.ConnState{Server: "s1"})
			m.Step(now, core.Receive{From: list[0].Address, Message: echo})
			if !m.echo.Sent.IsZero() {
				t.Error("an echo of the former connection counts")
			}
			return
		}
	}
	t.Fatal("no echo")
}

// TestVotesAreEven: the three collectors get their votes at even intervals. If the
// votes went out together, their answers would come together, and between them the
// lease would lapse.
func TestVotesAreEven(t *testing.T) {
	list := members(20)
	m, err := New(core.Config{Cluster: "test", Self: list[0].Address, SmallCluster: 2})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	m.Step(now, core.ConnState{Connected: true, Server: "s1"})
	m.Preform(now, gossip.Preformed(list))
	var votes []time.Duration
	for begin := now; now.Sub(begin) < 12*time.Second; now = now.Add(50 * time.Millisecond) {
		for _, e := range m.Step(now, core.Tick{}).Send {
			switch msg := e.Message.(type) {
			case message.Vote:
				if after := now.Sub(begin); after > lease.VoteInterval {
					votes = append(votes, after)
				}
				m.Step(now, core.Receive{From: e.To, Message: message.VoteAck{Target: message.TargetOf(list[0].Address), Seq: msg.Seq, Heard: time.Millisecond}})
			case message.Echo:
				m.Step(now, core.Receive{From: list[0].Address, Message: e.Message})
			}
		}
	}
	if len(votes) < 8 {
		t.Fatalf("got %d votes in 9s, want one a second", len(votes))
	}
	for i := 1; i < len(votes); i++ {
		if gap := votes[i] - votes[i-1]; gap < 800*time.Millisecond || gap > 1200*time.Millisecond {
			t.Errorf("votes at %v and %v, want a second between", votes[i-1], votes[i])
		}
	}
}
