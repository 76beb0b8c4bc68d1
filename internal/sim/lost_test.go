package sim

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// spread starts a cluster as the function cluster does, with node i at server i, or at the last
// server if there are fewer.
func spread(t *testing.T, servers, n int) (*World, []*Node, []*Server) {
	w, nodes := cluster(t, Config{Servers: servers}, n)
	for i, n := range nodes {
		if at := w.Servers()[min(i, servers-1)]; n.server != at {
			w.Move(n, at)
		}
	}
	w.Run(20 * time.Second)
	return w, nodes, w.Servers()
}

// TestLost: a killed member that was alone at its server is removed as fast as one that shared its
// server, because the others ask that server. A living member is not removed at once if only its
// server is cut off from the others.
func TestLost(t *testing.T) {
	for _, n := range []int{3, 4, 6} {
		for dies := range n {
			w, nodes, s := spread(t, n, n)
			begin, removed := w.Now(), make(map[*Node]time.Duration)
			w.OnEvents = func(n *Node, events []membership.Event) {
				for _, e := range events {
					if _, ok := e.(membership.MemberRemoved); ok {
						removed[n] = w.Now() - begin
					}
				}
			}
			w.Kill(nodes[dies])
			w.Run(5 * time.Second)
			for _, o := range nodes {
				if at, ok := removed[o]; o != nodes[dies] && (!ok || at < time.Second || at > 2500*time.Millisecond) {
					t.Errorf("of %d, %v removed %v after %v", n, o.Address, nodes[dies].Address, at)
				}
			}
			if w.Err() != nil {
				t.Fatal(w.Err())
			}
			begin = w.Now()
			clear(removed)
			other := (dies + 1) % n
			for i := range s {
				if i != other && i != dies {
					w.Part(s[other], s[i])
				}
			}
			w.Run(4 * time.Second)
			if len(removed) > 0 || w.Err() != nil {
				t.Errorf("of %d, %v is removed at once after its server was cut off: %v, %v", n, nodes[other].Address, removed, w.Err())
			}
		}
	}
}

// TestSuspected: a report of the broker to a lane makes a member probe the suspected member at
// once. The report is no evidence, even against a member that stands still.
func TestSuspected(t *testing.T) {
	w, nodes := cluster(t, Config{Account: true}, 5)
	w.Run(20 * time.Second)
	w.ResetTraffic()
	w.Run(time.Second)
	usual := nodes[0].Traffic().Sent.Messages
	for range 2 {
		for at := range 30 {
			w.After(time.Duration(at)*100*time.Millisecond, func() { w.Give(nodes[0], membership.Suspected{Peer: nodes[1].Address}) })
		}
		w.ResetTraffic()
		w.Run(time.Second)
		if sent := nodes[0].Traffic().Sent.Messages; sent < usual+5 {
			t.Errorf("%d messages, without suspicion %d", sent, usual)
		}
		w.Run(4 * time.Second)
		if w.Err() != nil || len(nodes[0].View().ByAge) != 5 || !nodes[0].Converged() {
			t.Fatal(w.Err(), nodes[0].View())
		}
		w.Freeze(nodes[1])
		w.After(2*time.Second, func() { w.Thaw(nodes[1]) })
	}
}

// TestLostToAll: a member moves to a server that is connected neither to its former server nor to
// the server of member one. Member one finds the moved member lost, but the others hear it. Nobody
// removes that member before CutAfter, because its lease lasts.
func TestLostToAll(t *testing.T) {
	w, nodes, s := spread(t, 4, 4)
	one, two, three, mover := nodes[0], nodes[1], nodes[2], nodes[3]
	w.Move(three, two.server)
	w.Run(20 * time.Second)
	var held []membership.Evidence
	w.OnEvents = func(n *Node, _ []membership.Event) {
		if r, ok := one.gossip().Record(one.Address, mover.Address); ok && n == one {
			held = append(held, r.Evidence)
		}
	}
	w.Part(s[0], s[2])
	w.Part(s[3], s[2])
	w.Move(mover, s[2])
	w.Run(5 * time.Second)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	if len(held) == 0 || held[len(held)-1] != membership.EvidenceLost {
		t.Errorf("it is never found lost: %v", held)
	}
	if _, ok := two.gossip().Member(mover.Address); !ok || !w.Lease(mover) {
		t.Errorf("it is a member for the others: %v, and has its lease: %v", ok, w.Lease(mover))
	}
}

// TestGoneHereHeardThere: a member moves to a server that its former server does not reach, but the
// others' server does. The member that remained at the former server finds the moved one gone and
// downs it. The moved member is not fenced while the others' votes for it count, even if they lose
// its server just then.
func TestGoneHereHeardThere(t *testing.T) {
	for n := 4; n <= 6; n++ {
		for mover := range n {
			for _, cut := range []bool{false, true} {
				w, nodes := cluster(t, Config{Servers: 3}, n)
				s := w.Servers()
				for i, o := range nodes {
					at := s[1]
					if i == mover || i == (mover+1)%n {
						at = s[0]
					}
					if o.server != at {
						w.Move(o, at)
					}
				}
				w.Run(20 * time.Second)
				downed := false
				w.OnEvents = func(_ *Node, events []membership.Event) {
					for _, e := range events {
						if d, ok := e.(membership.MemberDowned); ok && d.Member.Address == nodes[mover].Address && !downed {
							downed = true
							if cut {
								w.Part(s[1], s[2])
							}
						}
					}
				}
				w.Part(s[0], s[2])
				w.Move(nodes[mover], s[2])
				w.Run(20 * time.Second)
				if w.Err() != nil || !downed {
					t.Errorf("%v of %d: downed %v, %v", nodes[mover].Address, n, downed, w.Err())
				}
			}
		}
	}
}

// TestTieComesBack: the older half of a cluster, at another server, loses its connections. The
// younger half, which could not go on alone, finds the older half lost and waits for it.
func TestTieComesBack(t *testing.T) {
	for _, n := range []int{2, 4} {
		for _, away := range []time.Duration{1500 * time.Millisecond, 3 * time.Second, 4 * time.Second} {
			w, nodes, s := spread(t, 2, n)
			for i, o := range nodes {
				if i < n/2 && o.server != s[0] {
					w.Move(o, s[0])
				}
			}
			w.Run(20 * time.Second)
			w.config.Redial = away
			for _, o := range nodes[:n/2] {
				w.Disconnect(o)
			}
			w.Run(20 * time.Second)
			for _, o := range nodes {
				if o.Ended() || w.Err() != nil {
					t.Errorf("away for %v: %v of %d ended: %v, %v", away, o.Address, n, o.Last(), w.Err())
				}
			}
		}
	}
}

// TestLostInLargerClusters: where members vouch by messages that answer no heartbeat, nobody asks
// other servers, because a member could find another one lost and still vouch for it.
func TestLostInLargerClusters(t *testing.T) {
	for _, n := range []int{6, 7, 10} {
		w, nodes := cluster(t, Config{Servers: 3}, n)
		s := w.Servers()
		for i, o := range nodes {
			at := s[0]
			if i >= n-2 {
				at = s[i-n+3]
			}
			if o.server != at {
				w.Move(o, at)
			}
		}
		w.Run(20 * time.Second)
		w.Part(s[1], s[2])
		w.Cut(s[2], s[0])
		w.Move(nodes[n-2], s[2])
		w.Run(20 * time.Second)
		if w.Err() != nil {
			t.Errorf("of %d: %v", n, w.Err())
		}
	}
}
