package control

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestDownIsRefused: an operator may down a member that is unreachable or Down, and a reachable one
// only by force. A process that is not a member refuses to down any, because it knows too little.
func TestDownIsRefused(t *testing.T) {
	b := transport.Address{Name: "b", Incarnation: 1}
	for name, c := range map[string]struct {
		self      membership.Status
		node      transport.Address
		status    membership.Status
		reachable bool
		force     bool
		refusal   string
	}{
		"unreachable":         {membership.Up, b, membership.Up, false, false, ""},
		"reachable":           {membership.Up, b, membership.Up, true, false, "is up and reachable"},
		"reachable, by force": {membership.Up, b, membership.Up, true, true, ""},
		"down already":        {membership.Up, b, membership.Down, true, false, ""},
		"no member":           {membership.Up, self, membership.Up, false, false, "is not a member"},
		"asked of no member":  {membership.NoStatus, b, membership.Up, false, false, "is not a member itself"},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, machine := newTestMember(t)
			machine.view.SelfStatus = c.self
			machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b, Status: c.status}, Reachable: c.reachable}}
			err := m.members.refuseDown(c.node, c.force)
			if c.refusal == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refusal)
			}
		})
	}
}

// TestTableIsAsked: the machine's requests to the membership table go to the process, and the
// answers go back to the machine.
func TestTableIsAsked(t *testing.T) {
	m, env, machine := newTestMember(t)
	m.members.step(membership.Tick{})
	machine.out = membership.Output{
		ReadTable: &membership.TableRead{Number: 1}, WriteTable: &membership.TableWrite{Number: 2}, WriteAlive: &membership.TableAlive{Number: 3},
	}
	m.members.step(membership.Tick{})
	machine.out, machine.steps = membership.Output{}, nil
	for _, answer := range env.table {
		answer()
	}
	require.Equal(t, []membership.Input{
		membership.TableRows{Number: 1}, membership.TableWritten{Number: 2, Conflict: true}, membership.TableWritten{Number: 3, Done: true},
	}, machine.steps)
}

// TestViewHasSingletons: operators see every singleton that a member hosts, and the reason if no
// instance of it is known.
func TestViewHasSingletons(t *testing.T) {
	m, _, machine := newTestMember(t)
	b := transport.Address{Name: "b", Incarnation: 1}
	machine.view.ByAge = []membership.MemberView{{Member: membership.Member{
		Address: b, Status: membership.Up, Meta: []membership.KeyValue{{Key: hostmeta.SingletonKey("K"), Value: "1"}},
	}}}
	machine.view.ByAddress = machine.view.ByAge
	m.setup.Callable = func(string) singlehost.Callable { return nil }
	rows := m.operatorView().Singletons
	require.Len(t, rows, 1)
	require.Equal(t, "K", rows[0].Kind)
	require.Equal(t, []transport.Address{b}, rows[0].Hosts)
	require.NotEmpty(t, rows[0].Why)
}

// TestInquiry: answers reach an inquiry until it is concluded. Later answers are dropped.
func TestInquiry(t *testing.T) {
	m, _, _ := newTestMember(t)
	var got []uint64
	begin := func() uint64 {
		var id uint64
		id = m.Inquire(func(transport.Address, coordinator.Message) { got = append(got, id) })
		return id
	}
	first, second := begin(), begin()
	m.answered(first, self, nil)
	m.answered(second, self, nil)
	require.Equal(t, []uint64{first, second}, got)
	m.Conclude(first)
	require.False(t, m.Inquires(first))
	require.True(t, m.Inquires(second))
	m.answered(first, self, nil)
	m.answered(second, self, nil)
	require.Equal(t, []uint64{first, second, second}, got)
}

// TestReasonIsSaidForItsLife: a reason for a missing home holds for reasonLife after it was last
// given.
func TestReasonIsSaidForItsLife(t *testing.T) {
	m, env, _ := newTestMember(t)
	singletons{m.env, m}.SetWhy("K", "no member hosts it")
	require.NotEmpty(t, m.Reasons().Lately("K", env.now.Add(reasonLife)))
	require.Empty(t, m.Reasons().Lately("K", env.now.Add(reasonLife+1)))
}

// TestSeedsThatBecomeMembersAreSeen: a seed that was a member in any view is not logged as
// misspelt.
func TestSeedsThatBecomeMembersAreSeen(t *testing.T) {
	m, env, machine := newTestMember(t)
	m.seeds.begin([]string{"b", "c"}, self.Name, time.Second, env.now)
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: transport.Address{Name: "b", Incarnation: 1}, Status: membership.Up}}}
	m.viewChanged()
	require.Equal(t, []string{"c"}, m.seeds.names)
}

// TestReasonOfRefusalIsLoggedOnce: a joiner that is refused repeatedly logs each reason once. It
// does not log refusals of an earlier process of the same name, nor a final refusal, whose error
// ends the joiner.
func TestReasonOfRefusalIsLoggedOnce(t *testing.T) {
	m, env, _ := newTestMember(t)
	b, this := transport.Address{Name: "b", Incarnation: 1}, uint32(self.Incarnation)
	for _, c := range []struct {
		name    string
		refusal message.JoinRefused
		lines   int
	}{
		{"for good", message.JoinRefused{Target: this, Final: true, Reason: "lanes"}, 0},
		{"of an earlier process", message.JoinRefused{Target: this + 1, Reason: "clock"}, 0},
		{"a reason", message.JoinRefused{Target: this, Reason: "clock"}, 1},
		{"the same again", message.JoinRefused{Target: this, Reason: "clock"}, 0},
		{"another", message.JoinRefused{Target: this, Reason: "full"}, 1},
	} {
		env.logged = nil
		m.members.noteRefusal(b, c.refusal)
		require.Len(t, env.logged, c.lines, c.name)
	}
}

// TestLeavesInOrderAreLogged: the removal of a member is logged at Info, but at Debug if that
// member and this one both leave gracefully, as when a cluster is shut down.
func TestLeavesInOrderAreLogged(t *testing.T) {
	b := transport.Address{Name: "b", Incarnation: 1}
	for name, c := range map[string]struct {
		leaving bool
		was     membership.Status
		level   Level
	}{
		"left in order":                        {false, membership.Exiting, Info},
		"left in order while this one leaves":  {true, membership.Exiting, Debug},
		"was downed while this one leaves":     {true, membership.Down, Info},
		"leaving was all that was seen, alone": {false, membership.Leaving, Info},
	} {
		m, env, _ := newTestMember(t)
		m.leaving = c.leaving
		m.members.removed(membership.Member{Address: b, Status: c.was})
		require.Equal(t, []string{fmt.Sprint(int(c.level), " member removed")}, env.logged, name)
		require.Equal(t, c.was != membership.Down, len(env.left) == 1, "%s: it may still say goodbye", name)
	}
}

// TestMembershipProbes: a member asks the broker whether any member serves clients only when the
// membership needs to know.
func TestMembershipProbes(t *testing.T) {
	m, env, machine := newTestMember(t)
	m.members.step(membership.Tick{})
	require.Zero(t, env.probes)
	machine.out.Probe = true
	m.members.step(membership.Leave{})
	require.Positive(t, env.probes)
	require.Empty(t, env.logged)
	for _, c := range []struct {
		fails  error
		logged []string
	}{
		{errors.New("no room"), []string{fmt.Sprint(int(Warn), " members cannot be asked whether one serves")}},
		{fmt.Errorf("probe: %w", transport.ErrDisconnected), nil}, // the connection's own line says so
	} {
		env.logged, env.fails = nil, c.fails
		m.gateway.probe()
		require.Equal(t, c.logged, env.logged, c.fails)
	}
}

// TestChangesOfMembersAreLogged: the log shows when a member joins, becomes unreachable or
// reachable, is downed, or is removed.
func TestChangesOfMembersAreLogged(t *testing.T) {
	b := membership.Member{Address: transport.Address{Name: "b", Incarnation: 1}, Status: membership.Down}
	for _, c := range []struct {
		event membership.Event
		want  string
	}{
		{membership.MemberUp{Member: b}, fmt.Sprint(int(Info), " member up")},
		{membership.UnreachableMember{Member: b}, fmt.Sprint(int(Warn), " member unreachable")},
		{membership.ReachableMember{Member: b}, fmt.Sprint(int(Info), " member reachable again")},
		{membership.MemberDowned{Member: b}, fmt.Sprint(int(Warn), " member downed")},
		{membership.MemberRemoved{Member: b}, fmt.Sprint(int(Info), " member removed")},
		{membership.OtherTable{Node: b.Address}, fmt.Sprint(int(Error), " ", otherTable)},
	} {
		m, env, _ := newTestMember(t)
		m.members.event(c.event)
		require.Contains(t, env.logged, c.want)
	}
}

// TestEventsArePublished: events are published to the user even if the view does not change.
func TestEventsArePublished(t *testing.T) {
	m, env, machine := newTestMember(t)
	m.members.step(membership.Tick{})
	require.Zero(t, env.published)
	machine.out.Events = []membership.Event{membership.ReachableMember{}}
	m.members.step(membership.Tick{})
	require.Equal(t, 1, env.published)
}

// TestExitGivesUpWaiting: a member that gives up leaving gracefully exits although it still holds
// shards.
func TestExitGivesUpWaiting(t *testing.T) {
	m, env, machine := newTestMember(t)
	env.holds = true
	m.Exit()
	require.True(t, env.exiting)
	require.Contains(t, machine.steps, membership.Input(membership.ExitReady{}))
}

// TestReasonHoldsSinceItWasSaidFirst: a repeated reason is shown with the time since it was first
// given. For another reason the time starts again.
func TestReasonHoldsSinceItWasSaidFirst(t *testing.T) {
	var r Reasons
	now := time.Unix(1_000_000, 0)
	r.Note("K", "no member hosts it", now)
	now = now.Add(2 * time.Second)
	r.Note("K", "no member hosts it", now)
	require.Equal(t, "no member hosts it (for 2s)", r.Lately("K", now))
	r.Note("K", "it moves", now)
	require.Equal(t, "it moves", r.Lately("K", now))
}

// TestMisspeltSeedIsLoggedOnce: a seed that does not become a member in time is logged once. A seed
// that was a member is not logged.
func TestMisspeltSeedIsLoggedOnce(t *testing.T) {
	var logged []string
	log := func(_ Level, _ string, args ...any) { logged = append(logged, fmt.Sprintln(args...)) }
	begin := time.Unix(1_000_000, 0)
	var s seeds
	s.begin([]string{"a", "b", "bb"}, "a", time.Second, begin)
	s.seen(&membership.View{ByAddress: []membership.MemberView{
		{Member: membership.Member{Address: transport.Address{Name: "b", Incarnation: 1}}},
	}})
	s.tick(begin, log)
	s.tick(begin.Add(seedPatience*time.Second-1), log)
	require.Empty(t, logged, "before its time")
	s.tick(begin.Add(seedPatience*time.Second), log)
	require.Equal(t, []string{"seeds bb after 10s\n"}, logged)
	s.tick(begin.Add(time.Hour), log)
	require.Len(t, logged, 1, "again")

	logged = nil
	s.begin([]string{"a"}, "a", time.Second, begin)
	s.tick(begin.Add(time.Hour), log)
	require.Empty(t, logged, "of a process that joins through itself")
}

// TestEarlierDeathsAreKnown: a new member parts with the members that died before, as the membership
// table has them, and names them to clients. It does not part with members that left in order.
func TestEarlierDeathsAreKnown(t *testing.T) {
	m, env, machine := newTestMember(t)
	node := func(name string, status membership.Status) membership.Member {
		return membership.Member{Address: transport.Address{Name: name, Incarnation: 1}, Status: status}
	}
	dead := node("b", membership.Down)
	dead.Fenced = true
	machine.view.Table = &rows.Table{Rows: []rows.Row{{Member: node("a", membership.Removed)}, {Member: dead}, {Member: node(self.Name, membership.Up)}}}
	m.members.event(membership.MemberUp{Member: membership.Member{Address: self, Status: membership.Up}})
	require.Equal(t, []transport.Address{dead.Address}, env.gone)
	require.NoError(t, m.gateway.message(client(0), hello(t)))
	got := env.answers(t)
	require.Len(t, got, 1)
	require.Len(t, got[0].GetWelcome().GetLost(), 1)
	require.Equal(t, dead.Address, AddressOf(got[0].GetWelcome().GetLost()[0]))
}
