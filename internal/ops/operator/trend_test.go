package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/measure"
)

// ended returns counts of a type with n ended turns, a tenth of them with an error. n answers have
// waited for the store.
func ended(kind string, n uint64) measure.Calls {
	at := func(d time.Duration, n uint64) []measure.Bucket {
		return []measure.Bucket{{From: d, To: d * 9 / 8, Count: n}}
	}
	return measure.Calls{
		Turns: []measure.Series{
			{Kind: kind, Method: "Add", Durations: at(time.Millisecond, n-n/10)}, {Kind: kind, Method: "Add", Cause: "entity", Durations: at(4*time.Millisecond, n/10)},
		},
		Commits: []measure.Series{{Kind: kind, Method: "Add", Durations: at(2*time.Millisecond, n)}},
	}
}

// TestTrend: each minute has the difference of the counts in it, and the last hour is kept.
func TestTrend(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 30, 0, time.FixedZone("", 3600))
	l := NewTrend(start)
	all, last := l.After(time.Time{}, 1<<20)
	require.Empty(t, all)
	require.Zero(t, last)
	for i := range 12 { // two minutes
		l.Add(start.Add(time.Duration(i+1)*10*time.Second), float64(i), uint64(i), ended("Cart", uint64(i+1)*100))
	}
	all, last = l.After(time.Time{}, 1<<20)
	require.Len(t, all, 3)
	require.Equal(t, time.Date(2026, 1, 2, 2, 4, 0, 0, time.UTC), all[0].At)
	require.Equal(t, []time.Duration{20 * time.Second, time.Minute, 40 * time.Second}, []time.Duration{all[0].Lasted, all[1].Lasted, all[2].Lasted})
	require.Equal(t, all[2].At, last)
	require.InDelta(t, 4.5, all[1].Used, 1e-9, "the mean of 2 to 7")
	require.Equal(t, uint64(7), all[1].Memory)
	cart := all[1].Types[0]
	require.Equal(t, []any{"Cart", uint64(600), uint64(60)}, []any{cart.Kind, cart.Turns(), cart.Failed})
	require.InEpsilon(t, 1, float64(Quantile(cart.Took, 0.5))/float64(time.Millisecond), 0.25)
	require.InEpsilon(t, 4, float64(Quantile(cart.Took, 0.99))/float64(time.Millisecond), 0.25)
	require.InEpsilon(t, 2, float64(Quantile(cart.Commits, 0.5))/float64(time.Millisecond), 0.25)

	// A reader asks for what is new, and gets as much as there is room for.
	later, _ := l.After(all[0].At, 1<<20)
	require.Equal(t, all[1:], later)
	few, last := l.After(time.Time{}, 0)
	require.Equal(t, all[:1], few)
	require.Equal(t, all[2].At, last)

	for i := range 80 {
		l.Add(start.Add(time.Duration(10+i)*time.Minute), 1, 1, ended("Cart", 1200))
	}
	hour, _ := l.After(time.Time{}, 1<<20)
	require.Len(t, hour, trendMinutes)
	require.Empty(t, hour[59].Types, "no turn has ended in it")
	require.Len(t, all[1].Types, 1, "what was read has changed")

	// After the clock was set back, later minutes are dropped.
	for i := range 2 {
		l.Add(start.Add(time.Duration(20+i)*time.Minute), 1, 1, ended("Cart", 1200))
	}
	back, _ := l.After(time.Time{}, 1<<20)
	for _, m := range back {
		require.False(t, m.At.After(start.Add(21*time.Minute)), "%v is kept", m.At)
	}

	// A minute that was read does not change when more is added to it.
	read := func() uint64 { return back[len(back)-1].Types[0].Turns() }
	l.Add(start.Add(21*time.Minute+time.Second), 1, 1, ended("Cart", 1300))
	back, _ = l.After(time.Time{}, 1<<20)
	require.EqualValues(t, 100, read())
	l.Add(start.Add(21*time.Minute+2*time.Second), 1, 1, ended("Cart", 1400))
	require.EqualValues(t, 100, read())
	back, _ = l.After(time.Time{}, 1<<20)
	require.EqualValues(t, 200, read())
}

// TestTrendIsBounded: a minute has the busiest types only.
func TestTrendIsBounded(t *testing.T) {
	l, calls := NewTrend(start), measure.Calls{}
	for i := range 100 {
		c := ended(string(rune('A'+i)), uint64(i+1)*10)
		calls.Turns, calls.Commits = append(calls.Turns, c.Turns...), append(calls.Commits, c.Commits...)
	}
	l.Add(start.Add(time.Second), 1, 1, calls)
	all, _ := l.After(time.Unix(-1, 0), 1<<20)
	require.Len(t, all[0].Types, trendTypes)
	require.Equal(t, string(rune('A'+68)), all[0].Types[0].Kind)
	require.LessOrEqual(t, len(all[0].Types[0].Took), 2)
}
