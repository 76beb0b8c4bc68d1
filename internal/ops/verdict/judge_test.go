package verdict

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var (
	web1  = transport.Address{Name: "web-1", Incarnation: 1}
	web2  = transport.Address{Name: "web-2", Incarnation: 2}
	start = time.Unix(1_000_000, 0)
)

func up(nodes ...transport.Address) operator.View {
	v := operator.View{Self: web1, Status: membership.Up, Converged: true}
	for _, a := range nodes {
		v.Members = append(v.Members, operator.Member{Address: a, Status: membership.Up, Reachable: true, Hosts: []string{"Cart"}})
	}
	return v
}

// worse returns the findings that are not fine.
func worse(all []operator.Finding) (found []operator.Finding) {
	for _, f := range all {
		if f.Severity > operator.Skipped {
			found = append(found, f)
		}
	}
	return found
}

// TestJudge: each fault of a snapshot is one finding, with its severity, subject and remedy, and a
// snapshot without faults has none.
func TestJudge(t *testing.T) {
	type snap = Snapshot
	cart := func(s *snap, x operator.Type) {
		x.Kind, x.Shards = "Cart", 4
		s.Answers = []Answer{{Node: web1, Types: []operator.Type{x}}, {Node: web2}}
	}
	fact := func(of transport.Address, f operator.Fact) Answer {
		f.Time, f.Ready, f.MaxPayload = start, true, 1<<20
		return Answer{Node: of, Fact: &f, Asked: start, Answered: start}
	}
	for name, tt := range map[string]struct {
		in       func(s *snap)
		severity operator.Severity // of the finding; Fine means that there is none
		sentence string
	}{
		"healthy":       {in: func(s *snap) { cart(s, operator.Type{Held: []operator.Shard{{Shard: 4, State: "active"}}}) }},
		"no answer":     {func(s *snap) { s.Err = errors.New("no member is up") }, operator.Fault, "no member is up (check that nodes run, that they are at this broker, and the operator's permissions (shardctl permissions reader))"},
		"down":          {func(s *snap) { s.View.Members[1].Status = membership.Down }, operator.Fault, "web-2#0000000000000002 is down: the other members have given it up, and will remove it (shardctl events -since 10m)"},
		"not reachable": {func(s *snap) { s.View.Members[1].Reachable, s.View.Members[1].Evidence = false, "silent for 3s" }, operator.Fault, "web-2#0000000000000002 is not reachable: silent for 3s (see whether it runs, and look at its log and its network)"},
		"leaving":       {func(s *snap) { s.View.Members[1].Status = membership.Leaving }, operator.Note, "web-2#0000000000000002 is leaving"},
		"disagree":      {func(s *snap) { s.View.Converged, s.View.Why = false, "web-2 has not seen it" }, operator.Passing, "the members do not agree yet, so nobody is admitted or removed: web-2 has not seen it"},
		"no member":     {in: func(s *snap) { s.View = operator.View{} }},
		"paused":        {func(s *snap) { s.View.Pause = operator.Pause{By: "ann", At: time.Unix(0, 0)} }, operator.Note, "rebalancing is paused by ann since 1970-01-01T00:00:00Z (shardctl resume ends that)"},
		"singleton":     {func(s *snap) { s.View.Singletons = []operator.Singleton{{Kind: "Chief", Why: "no host"}} }, operator.Fault, "singleton Chief runs nowhere: no host (shardctl members)"},
		"silent":        {func(s *snap) { s.Answers = []Answer{{Node: web2, Err: errors.New("no answer within 3s")}} }, operator.Fault, "web-2#0000000000000002 does not answer: no answer within 3s (look at its log, and at the broker's for denied permissions)"},
		"no home": {
			func(s *snap) { cart(s, operator.Type{Homeless: []uint32{4, 7}, Waiting: 3, Why: "nobody has room"}) },
			operator.Fault, "Cart: 2 of 4 shards have no home, and 3 calls wait: nobody has room (shardctl where Cart ID says why)",
		},
		"calls wait": {func(s *snap) { cart(s, operator.Type{Waiting: 3}) }, operator.Passing, "Cart: calls that wait for a home, or for a shard to open: 3"},
		"moves":      {func(s *snap) { cart(s, operator.Type{Held: []operator.Shard{{Shard: 4, State: "draining"}}}) }, operator.Note, "shards on the move: 1"},
		"stuck":      {func(s *snap) { cart(s, operator.Type{Stuck: "shard Cart/4 has not opened"}) }, operator.Fault, "web-1: shard Cart/4 has not opened"},
		"unhosted": {
			func(s *snap) {
				s.Answers = []Answer{{Node: web1, Types: []operator.Type{{Kind: "Bill", Waiting: 3}}}, {Node: web2, Types: []operator.Type{{Kind: "Bill", Waiting: 1}}}}
			},
			operator.Fault, "Bill: no member hosts it, so calls of it wait: 4 (start a member that hosts it)",
		},
		"versions": {
			func(s *snap) {
				s.Answers = []Answer{fact(web1, operator.Fact{Release: "v1", Go: "go1"}), fact(web2, operator.Fact{Release: "v2", Go: "go1"})}
			},
			operator.Note, "the members have different versions: shardgen v1, go1 at web-1; shardgen v2, go1 at web-2 (finish the rollout)",
		},
		"clock": {
			func(s *snap) {
				s.Answers = []Answer{fact(web1, operator.Fact{})}
				s.Answers[0].Answered = start.Add(-2 * time.Second)
			},
			operator.Fault, "web-1's clock and this computer's differ by at least 2s (synchronize the clocks: log lines, and the expiry of entities and idempotency keys, depend on them)",
		},
		"payload": {
			func(s *snap) {
				s.Answers = []Answer{fact(web1, operator.Fact{})}
				s.Answers[0].Fact.MaxPayload = 1000
			},
			operator.Fault, "web-1 is connected to a server, which takes at most 1000 bytes in a message (set max_payload to 1MB or more at every server: calls, states and frames are bounded by it)",
		},
		"no store": {
			func(s *snap) {
				s.Answers = []Answer{fact(web1, operator.Fact{Store: true}), fact(web2, operator.Fact{})}
			},
			operator.Fault, "web-2 have no store, but other members have one (set Config.Store to the same store at all members)",
		},
		"right": {
			func(s *snap) { s.Denied = []Denial{{"web-1", start, "no right"}} },
			operator.Fault, "web-1 at " + start.Local().Format(time.DateTime) + ": no right (grant its user the rights that shardctl permissions worker prints)",
		},
		"an older member is not ready": {
			func(s *snap) {
				s.Answers = []Answer{fact(web1, operator.Fact{Reasons: []string{"r"}})}
				s.Answers[0].Fact.Ready = false
			},
			operator.Fault, "web-1: r (shardctl events -grep web-1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Now: start, View: up(web1, web2)}
			tt.in(&s)
			found := worse(Judge(s))
			if tt.severity == operator.Fine {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, tt.sentence, found[0].Sentence())
			require.Equal(t, tt.severity, found[0].Severity)
		})
	}
}

// TestJudgeProcess: findings about a process come from what it knows of itself.
func TestJudgeProcess(t *testing.T) {
	expiry := func(life, left time.Duration) func(p *Process) {
		return func(p *Process) {
			p.Expiries = []transport.Expiry{{What: "the certificate", From: start.Add(left - life), Until: start.Add(left)}}
		}
	}
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		in       func(p *Process)
		severity operator.Severity
		text     string
	}{
		"nothing":        {in: func(p *Process) { p.Stuck = 29 * time.Second }},
		"ended":          {func(p *Process) { p.Ended, p.Away = "e", time.Second }, operator.Dead, "e"},
		"stuck":          {func(p *Process) { p.Stuck = 30 * time.Second }, operator.Dead, "the control loop has not run for 30s"},
		"away":           {func(p *Process) { p.Away = 4150 * time.Millisecond }, operator.Unready, "the broker has not been reached for 4.2s"},
		"stopped":        {func(p *Process) { p.Stopped = "s" }, operator.Unready, "s"},
		"outside":        {func(p *Process) { p.Outside = "o" }, operator.Unready, "o"},
		"leaving":        {func(p *Process) { p.Leaving = "l" }, operator.Unready, "l"},
		"lease":          {func(p *Process) { p.Lease = "l" }, operator.Unready, "l"},
		"few":            {func(p *Process) { p.MinMembers = 3 }, operator.Fault, "2 of at least 3 members are up (Config.Membership.MinMembers)"},
		"store":          {func(p *Process) { p.Store, p.StoreSince, p.Durable = "full", start.Add(-5*time.Second), true }, operator.Unready, "the store has taken no write for 5s: full"},
		"store elects":   {func(p *Process) { p.Store, p.StoreSince, p.Durable = "full", start.Add(-4*time.Second), true }, operator.Fault, "the store has taken no write for 4s: full"},
		"one write":      {in: func(p *Process) { p.Store, p.StoreSince, p.Durable = "full", start.Add(-time.Second/2), true }},
		"store unneeded": {func(p *Process) { p.Store, p.StoreSince = "full", start.Add(-5*time.Second) }, operator.Fault, "the store has taken no write for 5s: full"},
		"table":          {func(p *Process) { p.Table, p.TableSince = "no answer", start.Add(-4*time.Second) }, operator.Fault, "the membership table has not answered for 4s, so no node joins and none that is lost is removed: no answer"},
		"table hiccup":   {in: func(p *Process) { p.Table, p.TableSince = "no answer", start.Add(-time.Second/2) }},
		"clock ahead":    {func(p *Process) { p.ClockAhead = time.Hour }, operator.Fault, "the wall clock is 1h0m0s ahead of the store's"},
		"clock behind":   {func(p *Process) { p.ClockAhead = -1234 * time.Millisecond }, operator.Fault, "the wall clock is 1.2s behind the store's"},
		"clock":          {in: func(p *Process) { p.ClockAhead = -time.Second }},
		"writes fail": {func(p *Process) {
			p.Writes = []Writes{{"Cart", 2, start.Add(-time.Second), errors.New("no leader"), 0}}
		}, operator.Fault, "Cart: writes of 2 shards have failed for 1s: no leader"},
		"writes slow":    {func(p *Process) { p.Writes = []Writes{{"Cart", 2, start, nil, 3 * time.Second}} }, operator.Fault, "Cart: writes to the store are slow: one took 3s"},
		"buffer":         {func(p *Process) { p.BufferBytes, p.BufferLimit = 80, 100 }, operator.Fault, "waiting calls take 80 B of 100 B"},
		"room":           {in: func(p *Process) { p.BufferBytes, p.BufferLimit = 79, 100 }},
		"expiry":         {expiry(365*day, 13*day), operator.Fault, "the certificate ends in 312h0m0s, at 1970-01-25T13:46:40Z"},
		"late enough":    {in: expiry(365*day, 15*day)},
		"short-lived":    {in: expiry(day, 6*time.Hour)},
		"short and late": {expiry(day, 4*time.Hour), operator.Fault, "the certificate ends in 4h0m0s, at 1970-01-12T17:46:40Z"},
		"seen": {func(p *Process) {
			expiry(365*day, 13*day)(p)
			p.Expiries[0].Seen = true
		}, operator.Note, "the certificate ends in 312h0m0s, at 1970-01-25T13:46:40Z"},
		"expired": {expiry(day, 0), operator.Fault, "the certificate has ended, at 1970-01-12T13:46:40Z"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Now: start, View: up(web1, web2), Self: &Process{Name: "web-1"}}
			tt.in(s.Self)
			found := Judge(s)
			if tt.severity == operator.Fine {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, tt.text, found[0].Text)
			require.Equal(t, tt.severity, found[0].Severity)
			if name != "few" {
				require.Equal(t, "web-1", found[0].Node)
			}
		})
	}
}

// TestMerge: an operator's judgement has each of the members' findings once, with the earliest
// time. A fault of a member that joins or leaves counts as passing.
func TestMerge(t *testing.T) {
	s := Snapshot{Now: start, View: up(web1, web2)}
	s.View.Members[1].Reachable, s.View.Members[1].Evidence = false, "silent"
	local := Judge(Snapshot{Now: start, View: s.View, Self: &Process{Name: "web-1", Lease: "no lease"}})
	for i := range local {
		local[i].Since = start.Add(-time.Minute)
	}
	answer := func(a transport.Address, found []operator.Finding) Answer {
		return Answer{Node: a, Fact: &operator.Fact{Time: start, MaxPayload: 1 << 20, Findings: found}, Asked: start, Answered: start}
	}
	s.Answers = []Answer{answer(web1, local), answer(web2, local[1:])}
	found := worse(Judge(s))
	require.Len(t, found, 2)
	require.Equal(t, "web-1: no lease", found[0].String())
	require.Equal(t, operator.Unready, found[0].Severity)
	require.Contains(t, found[1].Text, "is not reachable")
	require.Equal(t, start.Add(-time.Minute), found[1].Since)

	s.View = up(web1, web2)
	s.View.Members[0].Status = membership.Leaving
	s.Answers = []Answer{answer(web1, local[:1])}
	require.Equal(t, operator.Passing, Worst(worse(Judge(s))))
}

// TestUnsettled: a rolling restart waits for findings that pass and for faults, but not for
// credentials or clocks.
func TestUnsettled(t *testing.T) {
	f := func(check string, s operator.Severity) operator.Finding {
		return operator.Finding{Check: check, Severity: s}
	}
	_, waits := Unsettled([]operator.Finding{f(Credentials, operator.Fault), f(Clocks, operator.Fault), f(Cluster, operator.Note)})
	require.False(t, waits)
	for _, why := range []operator.Finding{f(Cluster, operator.Passing), f(Ready, operator.Unready)} {
		got, waits := Unsettled([]operator.Finding{f(Credentials, operator.Fault), why})
		require.True(t, waits)
		require.Equal(t, why, got)
	}
}

// TestLasting: Lasting leaves out a fault that only the later look has found.
func TestLasting(t *testing.T) {
	f := func(subject string, s operator.Severity) operator.Finding {
		return operator.Finding{Check: Streams, Subject: subject, Severity: s}
	}
	earlier := []operator.Finding{f("a", operator.Fault), f("b", operator.Fault)}
	later := []operator.Finding{f("b", operator.Fault), f("c", operator.Fault), f("d", operator.Note)}
	require.Equal(t, []operator.Finding{later[0], later[2]}, Lasting(earlier, later))
}

// TestJetStream: findings come from what a cluster of NATS servers says of the streams. A healthy
// replica may be some messages behind, and the replicas of a stream without a leader are not known.
func TestJetStream(t *testing.T) {
	peers := func(all ...Peer) []Peer { return all }
	js := &JetStream{
		Store: "s", Replicas: 3, Missing: []string{"s_t_User_l_1"}, Offline: map[string]string{"s_t_User_l_2": "unsupported"},
		Limits: []Limit{{Text: "the account uses 80 B of 100 B on disk", Used: 80, Most: 100, Do: "d"}, {Text: "room", Used: 79, Most: 100}, {Text: "no limit", Used: 79, Most: -1}},
		Streams: []Stream{
			{Name: "led", Clustered: true, Leader: "s1", Replicas: 3, Bytes: 7000, Peers: peers(Peer{Name: "s2", Current: true, Lag: 20_000}, Peer{Name: "s3", Lag: 2, Silent: time.Second})},
			{Name: "unled", Clustered: true, Replicas: 1, Peers: peers(Peer{Name: "s2"}, Peer{Name: "s3", Offline: true})},
			{Name: "lame", Clustered: true, Leader: "s1", Replicas: 3, Peers: peers(Peer{Name: "s2", Offline: true, Lag: 7}, Peer{Name: "s3", Lag: 2, Silent: 10 * time.Second})},
			{Name: "far", Clustered: true, Leader: "s1", Replicas: 3, Peers: peers(Peer{Name: "s2", Current: true}, Peer{Name: "s3", Lag: 10_000})},
			{Name: "small", Clustered: true, Leader: "s1", Replicas: 3, MaxCount: 10, Messages: 8, MaxBytes: 10, Bytes: 8, Peers: peers(Peer{Name: "s2", Current: true})},
		},
	}
	var got []string
	for _, f := range worse(Judge(Snapshot{Now: start, JetStream: js})) {
		require.NotEmpty(t, f.Do)
		got = append(got, f.Text)
	}
	require.Equal(t, []string{
		"the account uses 80 B of 100 B on disk",
		"s_t_User_l_1 has no leader, or it does not answer", "s_t_User_l_2 is offline: unsupported", "unled has no leader",
		"unled has 1 replicas, and Config.Replicas of the members' store is 3", "lame: its replica at s2 is offline, 7 messages behind",
		"lame: its replica at s3 is 2 messages behind, and was last heard 10s ago", "far: its replica at s3 is 10000 messages behind, and was last heard 0s ago",
		"small: only 2 of its 3 replicas exist", "small has 8 B of 10 B", "small has 8 of 10 messages",
	}, got)
	found := Judge(Snapshot{Now: start, JetStream: &JetStream{Store: "s", Replicas: 3, Streams: js.Streams[:1]}})
	require.Equal(t, operator.Fine, Worst(found))
	require.Equal(t, "1 streams of s, with 7 kB: all have a leader and their replicas, below their limits", found[1].Text)
	require.Equal(t, "there is no stream of s in this account", worse(Judge(Snapshot{Now: start, JetStream: &JetStream{Store: "s"}}))[0].Text)
}
