package sim

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestDownOfTheOldest: one half of a split cluster wins because it has the oldest member, which
// then dies. The other half must stop, even if an operator tells it of the death: it had lost while
// the oldest was alive.
func TestDownOfTheOldest(t *testing.T) {
	for _, told := range []bool{true, false} {
		w, nodes := cluster(t, Config{Servers: 2, Seed: 3}, 6) // nodes 0, 2 and 4 are at the first server
		w.Run(20 * time.Second)
		w.Part(w.Servers()[0], w.Servers()[1])
		w.Stall(w.Servers()[1], 1500*time.Millisecond) // the other half decides later
		w.Run(8 * time.Second)
		w.Kill(nodes[0])
		w.Run(3 * time.Second)
		if told {
			w.Give(nodes[1], membership.DownNode{Node: nodes[0].Address})
		}
		w.Run(30 * time.Second)
		for i, n := range nodes[1:] {
			if winner := i%2 == 1; n.Ended() == winner || w.Lease(n) != winner {
				t.Errorf("told %t: %v has ended: %t, has a lease: %t", told, n.Address, n.Ended(), w.Lease(n))
			}
		}
		if w.Err() != nil {
			t.Errorf("told %t: %v", told, w.Err())
		}
	}
}

// TestDownOfTheVoter: the side of the older of two voters removes the other side. The older voter
// then dies, and operators tell nobody, one side or both.
func TestDownOfTheVoter(t *testing.T) {
	for _, told := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		w := New(Config{Servers: 2, Seed: 4})
		var all []*Node
		add := func(name string, server int, roles ...string) *Node {
			n, err := w.Add(membership.Config{
				Self: transport.Address{Name: name, Incarnation: uint64(len(all) + 1)}, Seed: uint64(len(all)),
				Downing: membership.DowningKeepMajority, DowningRole: "vote", Roles: roles,
			}, Place{Server: server})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
			w.Start(n)
			return n
		}
		until := func(what string, is func() bool) {
			t.Helper()
			if !w.RunUntil(time.Minute, 10*time.Millisecond, is) {
				t.Fatalf("%v: not %s within a minute: %v", told, what, w.Err())
			}
		}
		older := add("v1", 0, "vote")
		until("up", func() bool { return Agreed(all) })
		beside := add("l", 0)
		add("m", 0)
		younger := add("v2", 1, "vote")
		add("x", 1)
		until("up", func() bool { return Agreed(all) })
		w.Run(20 * time.Second)
		w.Part(w.Servers()[0], w.Servers()[1])
		w.Stall(w.Servers()[1], 8*time.Second)
		until("removed", func() bool {
			_, known := beside.View().Member(younger.Address)
			return !known
		})
		w.Kill(older)
		w.Run(time.Second)
		for i, n := range []*Node{beside, younger} {
			if told[i] {
				w.Give(n, membership.DownNode{Node: older.Address})
			}
		}
		w.Run(time.Second)
		add("w", 0, "vote")
		w.Run(time.Minute)
		if w.Err() != nil {
			t.Errorf("%v: %v", told, w.Err())
		}
	}
}
