package operator

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1_700_000_000, 0)

// noTurns is a TurnSource of a process without turns.
type noTurns struct{}

func (noTurns) UnderWay(func(any, Turn)) {}
func (noTurns) Has(any) bool             { return false }

// hungTurns is a TurnSource with running turns, by key.
type hungTurns map[string]bool

func (h hungTurns) UnderWay(found func(any, Turn)) {
	for key := range h {
		found(key, Turn{EntityID{"User", key}, "Bid", "client web"})
	}
}

func (h hungTurns) Has(key any) bool { return h[key.(string)] }

// TestEarlierTurns checks that turns that began before the TurnWatch are reported as running, but
// not counted, until they end or another turn of their entity begins.
func TestEarlierTurns(t *testing.T) {
	var place atomic.Pointer[TurnWatch]
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	p := hungTurns{"ann": true, "bob": true, "cleo": true, "dora": true}
	require.Len(t, ReportTurns(&place, p, at(0)).Running, 4)
	w := place.Load()
	w.End("bob", true, at(1))
	p["cleo"] = false                                                           // its end came while it was adopted
	w.Begin("dora", Turn{EntityID{"User", "dora"}, "Free", "member n1"}, at(2)) // the earlier one's end did, too
	w.adopt("dora", Turn{EntityID{"User", "dora"}, "Bid", "client web"}, at(2))
	r := ReportTurns(&place, p, at(3))
	require.Equal(t, []RunningTurn{
		{Turn{EntityID{"User", "ann"}, "Bid", "client web"}, 3 * time.Second, true},
		{Turn{EntityID{"User", "dora"}, "Free", "member n1"}, time.Second, false},
	}, r.Running)
	require.Len(t, r.Methods, 1, "only the turn that began meanwhile is counted")
}

func TestWatch(t *testing.T) {
	var place atomic.Pointer[TurnWatch]
	require.Nil(t, place.Load())
	require.Empty(t, ReportTurns(&place, noTurns{}, start).Methods)
	w := place.Load()
	require.NotNil(t, w)
	ann, bob := EntityID{"User", "ann"}, EntityID{"User", "bob"}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	w.End("earlier", false, start) // it began before the watch
	for i := range 3 {
		w.Begin(i, Turn{ann, "Bid", "client web"}, at(0))
		w.End(i, i == 0, at(time.Duration(i)*time.Millisecond))
	}
	w.Begin("x", Turn{bob, "Free", "member n1"}, at(time.Second))
	w.Begin("y", Turn{ann, "Free", "member n1"}, at(2*time.Second))
	r := ReportTurns(&place, noTurns{}, at(4*time.Second))
	require.Equal(t, TurnReport{
		Lasted: 4 * time.Second,
		Types:  r.Types,
		Methods: []MethodTurns{
			{"User", "Bid", 3, 1, 3 * time.Millisecond, 2 * time.Millisecond},
			{"User", "Free", 2, 0, 0, 0},
		},
		Entities: []BusyEntity{{ann, 4, 0, 3 * time.Millisecond}, {bob, 1, 0, 0}},
		Callers:  []BusyCaller{{"client web", ann, 3, 0}, {"member n1", ann, 1, 0}, {"member n1", bob, 1, 0}},
		Running:  []RunningTurn{{Turn{bob, "Free", "member n1"}, 3 * time.Second, false}, {Turn{ann, "Free", "member n1"}, 2 * time.Second, false}},
	}, r)
	EndWatch(&place, at(4*time.Second+watchLasts))
	require.NotNil(t, place.Load())
	EndWatch(&place, at(5*time.Second+watchLasts))
	require.Nil(t, place.Load(), "nobody asks any more")
	require.Empty(t, ReportTurns(&place, noTurns{}, at(time.Minute)).Methods, "it begins anew")
}

// TestWatchIsBounded checks that the memory of a TurnWatch is bounded, whatever is called.
func TestWatchIsBounded(t *testing.T) {
	w := newTurnWatch(start)
	for i := range 3 * maxMethods {
		w.Begin(i, Turn{EntityID{"User", fmt.Sprint(i)}, fmt.Sprint(i), "c"}, start)
		w.End(i, false, start)
	}
	require.Len(t, w.methods, maxMethods+1)
	require.Len(t, w.entities.slots, maxSlots)
	require.Len(t, w.callers.order, maxSlots)
	r := w.Report(start)
	require.Equal(t, "…", r.Methods[0].Method)
	require.Equal(t, uint64(2*maxMethods), r.Methods[0].Turns)
	for _, n := range []int{len(r.Methods), len(r.Entities), len(r.Callers)} {
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
			h.add(k)
			exact[k]++
			total++
			for i := 1; i < len(h.order); i++ {
				require.LessOrEqual(t, h.order[(i-1)/2].count, h.order[i].count)
			}
		}
		found := map[int]bool{}
		for _, s := range h.top(20, func(a, b int) int { return a - b }) {
			found[s.key] = true
			require.GreaterOrEqual(t, s.count, exact[s.key], "seed %d key %d", seed, s.key)
			require.LessOrEqual(t, s.count-s.over, exact[s.key], "seed %d key %d", seed, s.key)
		}
		for k, n := range exact {
			require.True(t, found[k] || n <= total/20, "seed %d: key %d of %d is missing", seed, k, n)
		}
	}
}
