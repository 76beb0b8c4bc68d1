package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestVitals: what is wrong here makes a process not ready, what is wrong elsewhere does
// not, and only its end or a stuck loop makes it not live.
func TestVitals(t *testing.T) {
	for name, c := range map[string]struct {
		vitals vitals
		want   Health
	}{
		"nothing": {vitals{}, Health{Live: true, Ready: true}},
		"ended":   {vitals{ended: "ended", away: time.Second, notes: []string{"n"}}, Health{Ending: true, Reasons: []string{"ended"}}},
		"loop":    {vitals{stuck: 29 * time.Second}, Health{Live: true, Ready: true}},
		"stuck": {vitals{stuck: 30 * time.Second}, Health{
			Reasons: []string{"the control loop has not run for 30s"},
		}},
		"away": {vitals{away: 4150 * time.Millisecond, notes: []string{"n"}}, Health{
			Live: true, Reasons: []string{"the broker has not been reached for 4.2s", "n"},
		}},
		"just away": {vitals{away: time.Millisecond}, Health{
			Live: true, Reasons: []string{"the broker has not been reached for 100ms"},
		}},
		"stopped": {vitals{stopped: "s"}, Health{Live: true, Reasons: []string{"s"}}},
		"ending":  {vitals{stopped: "s", ending: true}, Health{Live: true, Ending: true, Reasons: []string{"s"}}},
		"outside": {vitals{outside: "o"}, Health{Live: true, Reasons: []string{"o"}}},
		"leaving": {vitals{leaving: "l"}, Health{Live: true, Ending: true, Reasons: []string{"l"}}},
		"lease":   {vitals{lease: "l"}, Health{Live: true, Reasons: []string{"l"}}},
		"store":   {vitals{store: "s"}, Health{Live: true, Reasons: []string{"s"}}},
		"noted":   {vitals{notes: []string{"n", "m"}}, Health{Live: true, Ready: true, Reasons: []string{"n", "m"}}},
	} {
		require.Equal(t, c.want, c.vitals.health(), name)
	}
	var many vitals
	for i := range maxNotes + 2 {
		many.notes = append(many.notes, fmt.Sprint(i))
	}
	reasons := many.health().Reasons
	require.Len(t, reasons, maxNotes+1)
	require.Equal(t, "and 2 more", reasons[maxNotes])
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

// TestStoreProbe: the store is asked when somebody asks for the health, not too often, and
// its silence counts from the first question without an answer.
func TestStoreProbe(t *testing.T) {
	var p storeProbe
	var asked []func()
	var answer error
	start := time.Now()
	ask := func(at time.Duration) int {
		p.ask(start.Add(at), func() error { return answer }, func(f func()) { asked = append(asked, f) })
		return len(asked)
	}
	require.Equal(t, 1, ask(0))
	require.Equal(t, 1, ask(time.Hour), "one question at a time")
	require.Empty(t, p.said(start), "no answer yet")
	asked[0]()
	require.Empty(t, p.said(start))
	require.Equal(t, 1, ask(probeEvery-1))
	answer = errors.New("no quorum")
	require.Equal(t, 2, ask(probeEvery))
	asked[1]()
	require.Equal(t, "the store has not answered for 2s: no quorum", p.said(start.Add(probeEvery+2*time.Second)))
	require.Equal(t, 2, ask(probeEvery+probeAgainAfter-1))
	require.Equal(t, 3, ask(probeEvery+probeAgainAfter))
	asked[2]()
	require.Equal(t, "the store has not answered for 4s: no quorum", p.said(start.Add(probeEvery+4*time.Second)))
	answer = nil
	require.Equal(t, 4, ask(probeEvery+2*probeAgainAfter))
	asked[3]()
	require.Empty(t, p.said(start.Add(time.Hour)), "it answers again")
	answer = context.Canceled
	require.Equal(t, 5, ask(time.Hour))
	asked[4]()
	require.Empty(t, p.said(start.Add(time.Hour)), "the node has ended, not the store")
}

// TestHomeless: shards that were given to nobody count, and those of a type that was never
// placed do not.
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
