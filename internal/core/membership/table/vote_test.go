package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
)

// Tests of what one member concludes about the others: by probes, by touches and from votes.

// unwatched makes the member watch only its first successor, and returns the name of its last one.
func (b *bench) unwatched() (name string) {
	b.m.Config.Table.Successors = 1
	b.m.successors(func(r *rows.Row) bool {
		name = r.Name
		return true
	})
	return name
}

// hear gives the machine a stand of each of the other members.
func (b *bench) hear() {
	b.t.Helper()
	for _, from := range []string{"b", "c", "d"} {
		b.receive(from, message.Stand{Target: message.TargetOf(addr("a")), Seq: 1, Version: b.m.Table().Version})
	}
}

// TestGuideTouchesTheSilent: a guide touches a member that it does not watch only if that member has
// been silent for three stand intervals.
func TestGuideTouchesTheSilent(t *testing.T) {
	b := newBench(t, "a")
	far := b.unwatched()
	touched := func() bool { return b.ever(far, message.Touch{Target: message.TargetOf(addr(far))}) }
	b.hear()
	b.hear()
	b.all = nil
	for range 20 {
		b.pass(100 * time.Millisecond)
		b.hear()
	}
	b.pass(3 * b.m.Config.Table.StandInterval)
	require.False(t, touched())
	b.pass(b.m.Config.ProbeInterval)
	require.True(t, touched())
}

// TestProbesWhomItVotesAgainst: a member goes on to probe a former successor that it votes against.
// Otherwise it would not notice that the suspected member answers again.
func TestProbesWhomItVotesAgainst(t *testing.T) {
	b := newBench(t, "a")
	far := b.unwatched()
	row := b.m.Table().Row(addr(far))
	b.m.note(row.Address)
	require.NotContains(t, b.m.watched(), row)
	b.m.peer(row.Address).probe.voted = true
	require.Contains(t, b.m.watched(), row)
}

// TestBrokersWordAcrossAPause: two reports that nobody listens for a member make it gone only if this
// node ran and was connected between them. Otherwise it could not hear the member meanwhile.
func TestBrokersWordAcrossAPause(t *testing.T) {
	for name, c := range map[string]struct {
		between func(b *bench)
		gone    bool
	}{
		"silence": {func(b *bench) { b.pass(2 * time.Second) }, true},
		"pause":   {func(b *bench) { b.now = b.now.Add(2 * time.Second) }, false},
		"connection lost": {func(b *bench) {
			b.step(core.ConnState{})
			b.pass(2 * time.Second)
			b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "a")
			b.pass(time.Second)
			nobody := core.Unreachable{Peer: addr("d"), Server: "s1/1"}
			b.step(nobody)
			c.between(b)
			b.step(nobody)
			require.Equal(t, c.gone, b.m.gone(b.m.Table().Row(addr("d"))))
		})
	}
}

// TestTouchesTheSuspected: what the broker says to a lane is no report about the member.
func TestTouchesTheSuspected(t *testing.T) {
	b := newBench(t, "c")
	b.pass(time.Second)
	b.step(core.Suspected{Peer: addr("a")})
	require.Contains(t, b.sent("a"), message.Message(message.Touch{Target: message.TargetOf(addr("a"))}))
	require.Zero(t, b.m.peer(addr("a")).absent)
}

// TestBrokerPassesTouchesOn: a member is not gone any more when the broker passes touches on to it,
// although it may never send this node anything, because it watches others.
func TestBrokerPassesTouchesOn(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	nobody, row := core.Unreachable{Peer: addr("d"), Server: "s1/1"}, b.m.Table().Row(addr("d"))
	b.step(nobody)
	for range 20 {
		b.pass(200 * time.Millisecond)
		b.step(nobody)
	}
	require.True(t, b.m.gone(row))
	b.pass(10 * time.Second)
	require.False(t, b.m.gone(row))
}

// TestVoteIsWithdrawn: a member withdraws its vote against another that it has heard since, unless the
// broker reports the other gone or the other is quarantined.
func TestVoteIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(b *bench)
		want bool
	}{
		"silent": {func(*bench) {}, false},
		"heard":  {func(b *bench) { b.hear() }, true},
		"quarantined": {func(b *bench) {
			b.change("d", func(r *rows.Row) { r.Quarantined = true })
			b.hear()
		}, false},
		"gone": {func(b *bench) {
			b.hear()
			b.step(core.Unreachable{Peer: addr("d"), Server: "s1/1"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "a")
			b.hear()
			b.change("d", func(r *rows.Row) { r.Suspicions = []rows.Suspicion{{By: addr("a"), At: b.now}} })
			b.now = b.now.Add(100 * time.Millisecond)
			c.do(b)
			r := b.m.Table().Row(addr("d"))
			w, ok := b.m.retraction(r, b.m.fresh(r))
			require.Equal(t, c.want, ok)
			if ok {
				require.Empty(t, w.Rows[0].Suspicions)
			}
		})
	}
}

// TestVotesNeeded: a member that cannot write to the table still counts among those that could vote,
// if this node hears it. Otherwise one vote would suffice.
func TestVotesNeeded(t *testing.T) {
	b := newBench(t, "a")
	b.hear()
	d := func() *rows.Row { return b.m.Table().Row(addr("d")) }
	require.Equal(t, 2, b.m.needed(d()))
	b.now = b.now.Add(b.m.staleAfter() + time.Second)
	b.step(core.Tick{})
	require.Equal(t, 1, b.m.needed(d()), "nobody else is heard, and nobody writes")
	b.hear()
	require.Equal(t, 2, b.m.needed(d()))
}

// TestVoteEnds: a vote makes a member unreachable for exactly VoteWindow, although no input comes when it
// ends.
func TestVoteEnds(t *testing.T) {
	b := newBench(t, "a")
	reachable := func() bool {
		d, _ := b.m.View().Member(addr("d"))
		return d.Reachable
	}
	b.now = b.now.Add(time.Millisecond) // no other timer is due when the vote ends
	b.change("d", func(r *rows.Row) { r.Suspicions = []rows.Suspicion{{By: addr("b"), At: b.now}} })
	ends := b.now.Add(b.m.Config.Table.VoteWindow)
	for !reachable() {
		require.False(t, b.out.WakeAt.After(ends))
		require.True(t, b.now.Before(ends))
		b.now = b.out.WakeAt
		b.step(core.Tick{})
	}
	require.Equal(t, ends, b.now)
}

// TestWhoTellsTheDead: messages to a dead member come from the guides, and from a member to which the
// broker had reported it gone. All members of a large cluster would be too many.
func TestWhoTellsTheDead(t *testing.T) {
	for _, gone := range []bool{false, true} {
		b := newBench(t, "d")
		e := rows.Row{Member: gossip.Member{Address: addr("e"), Status: gossip.Up, UpNumber: 5}, Founder: addr("a")}
		b.receive("a", message.Snapshot{Table: b.m.Table().With(5, []rows.Row{e}, nil)})
		b.change("d", func(r *rows.Row) { r.UpNumber = 6 })
		if gone {
			b.step(core.Unreachable{Peer: addr("c"), Server: "s1/1"})
		}
		b.change("c", func(r *rows.Row) { r.Status = gossip.Down })
		b.pass(10 * time.Second)
		require.Equal(t, gone, b.ever("c", message.Removal{Target: message.TargetOf(addr("c"))}))
	}
}
