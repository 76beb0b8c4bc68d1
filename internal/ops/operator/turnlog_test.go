package operator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/histogram"
	"github.com/shardgen/shardgen/runtime/measure"
)

var start = time.Unix(1_700_000_000, 0)

func took(d time.Duration, n uint64) Bucket { return Bucket{uint32(histogram.Of(d)), n} }

// TestReport: the turns of a method are added up over all causes, and running turns are ordered by
// their age.
func TestReport(t *testing.T) {
	series := func(method, cause string, d time.Duration, n uint64) measure.Series {
		at := histogram.Of(d)
		return measure.Series{Kind: "User", Method: method, Cause: cause, Durations: []measure.Bucket{{From: histogram.From(at), To: histogram.UpTo(at), Count: n}}}
	}
	running := func(id string, d time.Duration) RunningTurn {
		return RunningTurn{Turn{EntityID{"User", id}, "Bid", "client web"}, d}
	}
	r := NewTurnLog(start).Report(start, []measure.Series{
		series("Free", "", time.Microsecond, 4), series("Bid", "", time.Millisecond, 3), series("Bid", "entity", time.Microsecond, 2), series("Bid", "panic", time.Millisecond, 1),
	}, []RunningTurn{running("ann", time.Second), running("bob", 2*time.Second)})
	require.Equal(t, TurnReport{
		Methods: []MethodTurns{
			{"User", "Bid", 3, []Bucket{took(time.Microsecond, 2), took(time.Millisecond, 4)}},
			{"User", "Free", 0, []Bucket{took(time.Microsecond, 4)}},
		},
		Running: []RunningTurn{running("bob", 2*time.Second), running("ann", time.Second)},
	}, r)
	require.InEpsilon(t, float64(4*time.Millisecond), float64(Sum(r.Methods[0].Took)), 0.06)
}

// TestBusiest: noted turns stand for those before them, and count for five to ten seconds.
func TestBusiest(t *testing.T) {
	l, ann, bob := NewTurnLog(start), EntityID{"User", "ann"}, EntityID{"User", "bob"}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	due := func(n uint64, d time.Duration) uint64 { return l.Due(n, int64(time.Hour+d)) }
	require.EqualValues(t, 3, due(3, 0))
	require.Zero(t, due(4, logApart-1))
	require.EqualValues(t, 9, due(5, logApart), "and for those that were not noted")
	l.Note(Turn{ann, "Bid", "client web"}, 9, time.Millisecond, at(0))
	l.Note(Turn{bob, "Bid", "client web"}, 2, time.Millisecond, at(logWindow))
	l.Note(Turn{ann, "Free", "member n1"}, 1, time.Millisecond, at(logWindow+time.Second))
	r := l.Report(at(logWindow+time.Second), nil, nil)
	require.Equal(t, logWindow+time.Second, r.Window)
	require.Equal(t, []BusyEntity{{ann, 10, 0, 10 * time.Millisecond}, {bob, 2, 0, 2 * time.Millisecond}}, r.Entities)
	require.Equal(t, []BusyCaller{{"client web", ann, 9, 0}, {"client web", bob, 2, 0}, {"member n1", ann, 1, 0}}, r.Callers)
	r = l.Report(at(2*logWindow), nil, nil)
	require.Equal(t, []BusyEntity{{bob, 2, 0, 2 * time.Millisecond}, {ann, 1, 0, time.Millisecond}}, r.Entities)
	require.Equal(t, logWindow, r.Window)
	r = l.Report(at(5*logWindow), nil, nil)
	require.Empty(t, r.Entities)
	require.Empty(t, r.Callers)
}

// TestReportIsBounded: the memory of a TurnLog and a report's lists are bounded, whatever is called.
func TestReportIsBounded(t *testing.T) {
	l := NewTurnLog(start)
	var series []measure.Series
	var running []RunningTurn
	for i := range 3 * maxSlots {
		turn := Turn{EntityID{"User", fmt.Sprint(i)}, fmt.Sprint(i), "c"}
		l.Note(turn, 1, 1, start)
		series = append(series, measure.Series{Kind: "User", Method: turn.Method})
		running = append(running, RunningTurn{turn, 1})
	}
	require.Len(t, l.now.entities.slots, maxSlots)
	require.Len(t, l.now.callers.order, maxSlots)
	r := l.Report(start, series, running)
	require.Len(t, r.Methods, maxMethods)
	for _, n := range []int{len(r.Running), len(r.Entities), len(r.Callers)} {
		require.Equal(t, maxReported, n)
	}
}

// TestHeavy compares heavy's counts with exact ones, for random streams with some frequent keys.
func TestHeavy(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		h, exact, total := newHeavy[int](20), map[int]uint64{}, uint64(0)
		zipf := rand.NewZipf(r, 1.1+r.Float64(), 1, 500)
		for range 5000 {
			k := int(zipf.Uint64())
			h.add(k, 1, 0)
			exact[k]++
			total++
			for i := 1; i < len(h.order); i++ {
				require.LessOrEqual(t, h.order[(i-1)/2].count, h.order[i].count)
			}
		}
		found := map[int]bool{}
		for _, s := range top(20, func(a, b int) int { return a - b }, h) {
			found[s.key] = true
			require.GreaterOrEqual(t, s.count, exact[s.key], "seed %d key %d", seed, s.key)
			require.LessOrEqual(t, s.count-s.over, exact[s.key], "seed %d key %d", seed, s.key)
		}
		for k, n := range exact {
			require.True(t, found[k] || n <= total/20, "seed %d: key %d of %d is missing", seed, k, n)
		}
	}
}
