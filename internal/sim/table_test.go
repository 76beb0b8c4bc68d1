package sim_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// tableWorld returns a world whose nodes agree by a table. The i-th node is at server i modulo the
// number of servers.
func tableWorld(t *testing.T, config sim.Config, nodes int) (*sim.World, []*sim.Node) {
	t.Helper()
	if testing.Verbose() && os.Getenv("TABLE_QUIET") == "" {
		config.Trace = func(line string) { t.Log(line) }
	}
	w := sim.New(config)
	for i := range nodes {
		n, err := w.Add(membership.Config{
			Self:  transport.Address{Name: fmt.Sprintf("n%d", i+1), Incarnation: uint64(100 + i)},
			Seed:  uint64(i),
			Table: membership.Table{Enabled: true},
		}, sim.Place{Server: i % len(w.Servers()), Offset: time.Duration(i) * time.Hour})
		require.NoError(t, err)
		w.At(time.Duration(i)*100*time.Millisecond, func() { w.Start(n) })
	}
	require.True(t, w.RunUntil(time.Minute, 10*time.Millisecond, func() bool {
		return len(w.Running()) == nodes && sim.Agreed(w.Nodes())
	}), "%v: %v", w.Err(), w.Table())
	w.Run(2 * time.Second)
	require.NoError(t, w.Err())
	return w, w.Nodes()
}

// serving returns the nodes that have a lease.
func serving(w *sim.World) (names []string) {
	for _, n := range w.Running() {
		if w.Lease(n) {
			names = append(names, n.Address.Name)
		}
	}
	return names
}

// always lets time pass, and requires that exactly these nodes have a lease at all times.
func always(t *testing.T, w *sim.World, d time.Duration, nodes ...string) {
	t.Helper()
	for end := w.Now() + d; w.Now() < end; {
		w.Run(50 * time.Millisecond)
		require.NoError(t, w.Err())
		require.Equal(t, nodes, serving(w), "at %v", w.Now())
	}
}

// TestTableForms: five nodes form a cluster, and all have a lease.
func TestTableForms(t *testing.T) {
	w, _ := tableWorld(t, sim.Config{}, 5)
	always(t, w, 3*time.Minute, "n1", "n2", "n3", "n4", "n5")
	t.Logf("%+v", w.TableStats)
}

// TestTableOutage: while no node reaches the table, all nodes keep their leases.
func TestTableOutage(t *testing.T) {
	w, _ := tableWorld(t, sim.Config{Servers: 3}, 5)
	version := w.Table().Version
	w.TableDown(true)
	always(t, w, 5*time.Minute, "n1", "n2", "n3", "n4", "n5")
	w.TableDown(false)
	always(t, w, time.Minute, "n1", "n2", "n3", "n4", "n5")
	require.Equal(t, version, w.Table().Version)
}

// until lets time pass until a condition holds.
func until(t *testing.T, w *sim.World, d time.Duration, holds func() bool) time.Duration {
	t.Helper()
	began := w.Now()
	require.True(t, w.RunUntil(d, 10*time.Millisecond, holds), "%v: %v", w.Err(), w.Table())
	require.NoError(t, w.Err())
	return w.Now() - began
}

// fenced reports whether the table has these nodes fenced.
func fenced(w *sim.World, nodes ...*sim.Node) bool {
	for _, n := range nodes {
		if r := w.Table().Row(n.Address); r == nil || !r.Fenced {
			return false
		}
	}
	return true
}

// TestTableKill: a killed process is fenced soon, because the broker reports it gone. It makes no
// difference how long before the kill the process last exchanged stands (message.Stand).
func TestTableKill(t *testing.T) {
	for servers := 1; servers <= 3; servers++ {
		for phase := range 25 {
			w, n := tableWorld(t, sim.Config{Servers: servers, Seed: uint64(phase), Jitter: 50 * time.Millisecond}, 5)
			w.Run(time.Duration(phase) * 20 * time.Millisecond)
			victim := n[phase%5]
			w.Kill(victim)
			took := until(t, w, time.Minute, func() bool { return fenced(w, victim) })
			t.Logf("%d servers, %d: %v", servers, phase, took)
			require.Less(t, took, 1700*time.Millisecond)
			others := []string{"n1", "n2", "n3", "n4", "n5"}
			always(t, w, time.Second, slices.DeleteFunc(others, func(s string) bool { return s == victim.Address.Name })...)
		}
	}
}

// TestTableSuspected: a lane reports that nobody listens at a member. The report proves nothing. It
// comes while the reporting member reads in the table that the member is declared dead. The member
// must be fenced all the same.
func TestTableSuspected(t *testing.T) {
	w, n := tableWorld(t, sim.Config{}, 12)
	victim, writer, by := n[11], n[4], n[7]
	for _, guide := range n[:4] {
		w.Freeze(guide)
	}
	w.Give(writer, membership.DownNode{Node: victim.Address})
	until(t, w, time.Second, func() bool { return w.Table().Row(victim.Address).Status == membership.Down })
	w.Freeze(writer)                                      // before it tells anybody
	w.Give(by, membership.DownNode{Node: victim.Address}) // reads the table, to write the same
	w.Run(30 * time.Millisecond)
	w.Give(by, membership.Suspected{Peer: victim.Address})
	until(t, w, time.Minute, func() bool { return fenced(w, victim) })
}

// TestTableHalf: three of five nodes are killed at once. The other two keep their leases without a
// break, and have fenced all three within five seconds.
func TestTableHalf(t *testing.T) {
	for servers := 1; servers <= 3; servers++ {
		w, n := tableWorld(t, sim.Config{Servers: servers}, 5)
		w.Kill(n[0])
		w.Kill(n[1])
		w.Kill(n[2])
		took := until(t, w, time.Minute, func() bool { return fenced(w, n[:3]...) })
		t.Logf("%d servers: %v", servers, took)
		require.Less(t, took, 5*time.Second)
		always(t, w, time.Second, "n4", "n5")
	}
}

// TestTableAllDie: all members are killed, and perhaps all servers restarted. New nodes start, with
// the same names or others, at the same servers or others. In a few seconds they serve and have
// fenced the dead: each new node proves deaths at its server, asks the other servers, and moves to
// them if they give no evidence.
func TestTableAllDie(t *testing.T) {
	for i := range 24 {
		restarted, renamed, fewer, shift := i%2 == 1, i/2%2 == 1, i/4%2 == 1, i/8
		w, dead := tableWorld(t, sim.Config{Servers: 3}, 3)
		for _, n := range dead {
			w.Kill(n)
		}
		for _, s := range w.Servers() {
			if restarted {
				w.StopServer(s)
			}
		}
		w.Run(time.Second)
		for _, s := range w.Servers() {
			if restarted {
				w.StartServer(s)
			}
		}
		limit, name, names := 3*time.Second, "n%d", dead
		if fewer { // two nodes at one server
			names = dead[:2]
		}
		switch { // members that live have ReturnGrace to come back
		case restarted && fewer: // no server answers questions about its former instance's members
			limit = 14 * time.Second
		case restarted:
			limit = 7 * time.Second
		}
		if renamed {
			name = "m%d"
		}
		for j := range names {
			server := (j + shift) % 3
			if fewer {
				server = shift
			}
			joins(t, w, fmt.Sprintf(name, j+1), uint64(200+i*3+j), server)
		}
		took := until(t, w, time.Minute, func() bool { return len(serving(w)) == len(names) && fenced(w, dead...) })
		require.Less(t, took, limit, "restarted %t, renamed %t, fewer %t, shift %d", restarted, renamed, fewer, shift)
	}
}

// TestTableJoinerBehindACut: a joiner's server has lost its route to the server of all members. That
// server says that they are connected, so the joiner moves there.
func TestTableJoinerBehindACut(t *testing.T) {
	w, members := tableWorld(t, sim.Config{Servers: 2}, 4) // n2 and n4 are at the second server
	w.Kill(members[1])
	w.Kill(members[3])
	until(t, w, time.Minute, func() bool { return fenced(w, members[1], members[3]) })
	w.Part(w.Servers()[0], w.Servers()[1])
	w.Run(time.Second)
	joiner := joins(t, w, "n5", 200, 1)
	require.Less(t, until(t, w, time.Minute, func() bool { return joiner.Ended() || w.Lease(joiner) }), 5*time.Second)
	require.True(t, w.Lease(joiner))
}

// TestTableFormerJoiner: all members have died, and then a node that joins. Its successor, which has
// its name and is at another server, serves.
func TestTableFormerJoiner(t *testing.T) {
	w, members := tableWorld(t, sim.Config{Servers: 2}, 1)
	w.Kill(members[0])
	former := joins(t, w, "n2", 200, 0)
	w.Run(400 * time.Millisecond)
	require.NotNil(t, w.Table().Row(former.Address))
	w.Kill(former)
	w.Run(time.Second)
	next := joins(t, w, "n2", 201, 1)
	require.Less(t, until(t, w, time.Minute, func() bool { return next.Ended() || w.Lease(next) }), 5*time.Second)
	require.True(t, w.Lease(next))
}

// joins starts a node that joins.
func joins(t *testing.T, w *sim.World, name string, incarnation uint64, server int) *sim.Node {
	n, err := w.Add(membership.Config{
		Self: transport.Address{Name: name, Incarnation: incarnation}, Seed: incarnation, Table: membership.Table{Enabled: true},
	}, sim.Place{Server: server})
	require.NoError(t, err)
	w.Start(n)
	return n
}

// TestTableLastLeaves: the last member leaves before a dead one is fenced. A node that starts alone
// later finds the death in the table, and proves it at the dead one's server.
func TestTableLastLeaves(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 2}, 2)
	w.Kill(n[0])
	until(t, w, time.Minute, func() bool { return fenced(w, n[0]) })
	w.Give(n[1], membership.Leave{})
	w.Give(n[1], membership.ExitReady{})
	until(t, w, time.Second, func() bool { return len(w.Running()) == 0 })
	left := &rows.Table{Version: w.Table().Version + 1, Rows: slices.Clone(w.Table().Rows)}
	left.Row(n[0].Address).Fenced = false
	w.SetTable(left)
	joins(t, w, "n3", 200, 1)
	require.Less(t, until(t, w, time.Minute, func() bool { return len(serving(w)) == 1 && fenced(w, n[0]) }), 5*time.Second)
}

// TestTableServersRestart: all servers restart, and members come back over three seconds. Nobody is declared dead.
func TestTableServersRestart(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 3, Redial: 6 * time.Second}, 9)
	for _, s := range w.Servers() {
		w.StopServer(s)
	}
	w.Run(time.Second)
	for _, s := range w.Servers() {
		w.StartServer(s)
	}
	until(t, w, time.Minute, func() bool { return len(serving(w)) == len(n) })
	w.Run(10 * time.Second)
	require.Len(t, w.Running(), len(n))
}

// TestTableHost: a member whose host vanishes is declared dead after unanswered probes, and fenced
// after a time.
func TestTableHost(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 3}, 5)
	w.KillHost(n[0])
	took := until(t, w, 2*time.Minute, func() bool { return fenced(w, n[0]) })
	t.Logf("%v", took)
	always(t, w, time.Second, "n2", "n3", "n4", "n5")
}

// TestTablePartition: of two sides, the one that reaches the table goes on, however small it is.
// The other side stops before it is fenced.
func TestTablePartition(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 2}, 5) // n2 and n4 are at the second server
	s := w.Servers()
	for _, o := range []*sim.Node{n[0], n[2], n[4]} {
		w.CutTable(o, true)
	}
	w.Run(10 * time.Second)
	require.Equal(t, []string{"n1", "n2", "n3", "n4", "n5"}, serving(w))
	w.Part(s[0], s[1])
	took := until(t, w, 5*time.Minute, func() bool { return fenced(w, n[0], n[2], n[4]) })
	t.Logf("%v", took)
	require.Equal(t, []string{"n2", "n4"}, serving(w))
	w.Mend(s[0], s[1])
	w.Run(5 * time.Second)
	require.NoError(t, w.Err())
	require.Len(t, w.Running(), 2, "who is dead in the table stops")
}

// TestTableOutageAndKill: a process is killed while the table is down. The others go on. No member
// is declared dead before the table is back.
func TestTableOutageAndKill(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 1}, 5)
	w.TableDown(true)
	w.Run(5 * time.Second)
	w.Kill(n[0])
	always(t, w, time.Minute, "n2", "n3", "n4", "n5")
	require.Equal(t, membership.Up, w.Table().Row(n[0].Address).Status)
	w.TableDown(false)
	until(t, w, 10*time.Second, func() bool { return fenced(w, n[0]) })
}

// TestTableLateLease: both sides of a partition reach the table. When a member is declared dead,
// its side loses the table at that moment. The dead member runs turns for as long as its last
// proof allows, and is fenced only then.
func TestTableLateLease(t *testing.T) {
	longest := time.Duration(0)
	for seed := range uint64(12) {
		w, n := tableWorld(t, sim.Config{Servers: 2, RouteTimeout: 10 * time.Minute, Seed: seed}, 5)
		s := w.Servers()
		w.Cut(s[0], s[1]) // n2 and n4 are at the second server
		w.Cut(s[1], s[0])
		var victim *sim.Node
		require.True(t, w.RunUntil(2*time.Minute, time.Millisecond, func() bool {
			for _, o := range n {
				if victim == nil && w.Table().Row(o.Address).Status == membership.Down {
					victim = o
				}
			}
			return victim != nil
		}))
		for _, o := range n {
			w.CutTable(o, o.Server() == victim.Server())
		}
		served := until(t, w, 10*time.Second, func() bool { return !w.Lease(victim) })
		until(t, w, time.Minute, func() bool { return fenced(w, victim) })
		longest = max(longest, served)
	}
	t.Logf("served for %v", longest)
	require.Greater(t, longest, 3*time.Second)
}

// TestTableNamesServer: a member that has moved to another server gets a lease only when its row
// names that server. Otherwise a report of the old server's broker could fence it while it runs
// turns.
func TestTableNamesServer(t *testing.T) {
	w, n := tableWorld(t, sim.Config{Servers: 2}, 4) // n2 and n4 are at the second server
	w.CutTable(n[1], true)
	w.Move(n[1], w.Servers()[0])
	w.Run(500 * time.Millisecond)
	w.Give(n[0], membership.Leave{}) // this causes a write, which is a proof for all members that ask n1
	w.Run(2 * time.Second)
	require.Equal(t, []string{"n1", "n3", "n4"}, serving(w))
	w.CutTable(n[1], false)
	w.Run(3 * time.Second)
	require.Equal(t, []string{"n1", "n2", "n3", "n4"}, serving(w))
	require.Equal(t, w.Servers()[0].Place(), w.Table().Row(n[1].Address).Server)
}
