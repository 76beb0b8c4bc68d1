package shard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestHealthOf: the worst finding decides, findings of severity Note are not among the reasons, and
// long lists are clipped.
func TestHealthOf(t *testing.T) {
	f := func(s operator.Severity) operator.Finding {
		return operator.Finding{Node: "n1", Severity: s, Text: s.String(), Do: "mend it"}
	}
	for _, c := range []struct {
		worst operator.Severity
		want  Health
	}{
		{operator.Note, Health{Live: true, Ready: true, Settled: true}},
		{operator.Passing, Health{Live: true, Ready: true, Reasons: []string{"passing (mend it)"}}},
		{operator.Fault, Health{Live: true, Ready: true, Reasons: []string{"fault (mend it)"}}},
		{operator.Unready, Health{Live: true, Reasons: []string{"unready (mend it)"}}},
		{operator.Dead, Health{Reasons: []string{"dead (mend it)"}}},
	} {
		require.Equal(t, c.want, healthOf([]operator.Finding{f(c.worst), f(operator.Note)}, false))
	}
	require.Equal(t, Health{Live: true, Ready: true, Settled: true, Ending: true}, healthOf(nil, true))
	reasons := healthOf(slices.Repeat([]operator.Finding{f(operator.Fault)}, maxReasons+2), false).Reasons
	require.Len(t, reasons, maxReasons+1)
	require.Equal(t, "and 2 more", reasons[maxReasons])
}

func TestPulse(t *testing.T) {
	var p node.Pulse
	var posted []func()
	post := func(f func()) { posted = append(posted, f) }
	require.Zero(t, p.Stuck(5))
	p.Beat(10, post)
	p.Beat(20, post)
	require.Len(t, posted, 1, "a stuck loop gets no further function")
	require.Equal(t, time.Duration(20), p.Stuck(30))
	posted[0]()
	require.Zero(t, p.Stuck(40), "the loop has run")
	p.Beat(50, post)
	require.Len(t, posted, 2)
}

// TestStoreProbe: the probe tries a write when it is asked, unless the store has taken a write
// lately. A fault is dated from the first write that failed.
func TestStoreProbe(t *testing.T) {
	var p storeProbe
	var tried []func()
	var answer error
	start := time.Now()
	wrote := time.Time{}
	ask := func(at time.Duration) int {
		p.ask(start.Add(at), wrote, probeEvery, func() error { return answer }, func(f func()) { tried = append(tried, f) })
		return len(tried)
	}
	said := func(want string, since time.Duration) {
		t.Helper()
		why, at := p.said()
		require.Equal(t, want, why)
		if want != "" {
			require.Equal(t, start.Add(since), at)
		}
	}
	require.Equal(t, 1, ask(0))
	require.Equal(t, 1, ask(time.Hour), "one write at a time")
	said("", 0) // no answer yet
	tried[0]()
	said("", 0)
	wrote = start.Add(time.Second)
	require.Equal(t, 1, ask(probeEvery), "another write was taken")
	answer = errors.New("no quorum")
	require.Equal(t, 2, ask(time.Second+probeEvery))
	tried[1]()
	said("no quorum", time.Second+probeEvery)
	wrote = start.Add(time.Hour)
	require.Equal(t, 2, ask(time.Second+probeEvery+probeAgainAfter-1))
	require.Equal(t, 3, ask(time.Second+probeEvery+probeAgainAfter))
	tried[2]()
	said("no quorum", time.Second+probeEvery)
	answer = nil
	require.Equal(t, 4, ask(probeEvery+3*probeAgainAfter))
	tried[3]()
	said("", 0) // the store takes writes again
	answer = context.Canceled
	require.Equal(t, 5, ask(2*time.Hour))
	tried[4]()
	said("", 0) // no fault of the store: the node has ended
}

// TestHomeless: shards without a home count, except those of a type that was never placed.
func TestHomeless(t *testing.T) {
	require.Empty(t, homeless(nil, false))
	entry := func(shard uint32, home string) placement.Entry {
		e := placement.Entry{ShardID: placement.ShardID{Kind: "Cart", Shard: shard}, Epoch: placement.MakeEpoch(1, 1)}
		if home != "" {
			e.Home = transport.Address{Name: home, Incarnation: 1}
		}
		return e
	}
	table, err := (*placement.Table)(nil).Apply(placement.Diff{
		To: placement.Version{Term: placement.Term{Number: 1, Incarnation: 1}, Seq: 1}, Full: true,
		Entries: []placement.Entry{entry(4, "a"), entry(5, ""), entry(6, "b")},
	})
	require.NoError(t, err)
	k := table.Type("Cart")
	require.Equal(t, uint32(4), k.Shards())
	require.Len(t, homeless(k, false), 2, "one has no home, and one no entry")
	require.Len(t, homeless(k, true), 1, "an instance of a pool has no home; a pool of three has no fourth one")
}

// TestTakeLost: members that were downed on evidence count as lost, each once. Members that an
// operator downed, or with other settings, do not.
func TestTakeLost(t *testing.T) {
	var v events
	downed := func(name string, e membership.Evidence, why string) membership.Event {
		return membership.MemberDowned{Member: membership.Member{Address: transport.Address{Name: name}}, Evidence: e, Why: why}
	}
	v.publish(&membership.View{}, []membership.Event{
		downed("a", membership.EvidenceGone, ""), downed("b", membership.NoEvidence, ""), downed("c", membership.EvidenceSilent, "Lanes"),
		membership.MemberRemoved{Member: membership.Member{Address: transport.Address{Name: "d"}}},
	})
	require.Equal(t, []string{"a"}, v.takeLost())
	require.Empty(t, v.takeLost())
}

// expiring is a link whose certificate ends soon.
type expiring struct{ transport.Link }

func (expiring) Expiries() []transport.Expiry {
	return []transport.Expiry{{What: "the certificate", Until: time.Now().Add(time.Hour)}}
}

type expiringTransport struct{ transport.Transport }

func (e expiringTransport) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := e.Transport.Open(ctx, o)
	return expiring{l}, err
}

// TestHealthOfBounds: a node's health reports full buffers, refused clients and credentials that
// end soon, until the fault has ended.
func TestHealthOfBounds(t *testing.T) {
	n := New(Config{
		Cluster: "test", Name: "a", Transport: expiringTransport{memory.NewBroker(memory.Options{}).Transport()}, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = n.Close() })
	require.NoError(t, n.Start(t.Context()))
	checks := func(at time.Time) (all []string) {
		found, _ := n.judge(at)
		for _, f := range found {
			if f.Severity == operator.Fault {
				all = append(all, f.Check)
			}
		}
		return all
	}
	now := time.Now()
	require.Equal(t, []string{"credentials"}, checks(now))
	require.Equal(t, map[string]uint64{"credentials": 1}, n.Load().Faults)
	limit := int(n.driver.Config.BufferBytes)
	n.driver.Budget.Force(limit)
	n.driver.Counts.Add(node.ClientOverQuota)
	require.Equal(t, []string{"buffers", "clients", "credentials"}, checks(now))
	n.driver.Budget.Give(limit)
	require.Equal(t, []string{"clients", "credentials"}, checks(now))
	require.Equal(t, []string{"credentials"}, checks(now.Add(time.Minute)))
}
