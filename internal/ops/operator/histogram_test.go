package operator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	loglinear "github.com/shardgen/shardgen/internal/util/histogram"
)

// TestQuantile compares quantiles with those of the sorted times.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10_000 {
		took := time.Duration(200 * (1 + r.ExpFloat64()*float64(r.IntN(1000))))
		all = append(all, took)
		h.add(took)
	}
	slices.Sort(all)
	for _, share := range []float64{0.5, 0.9, 0.99, 1} {
		exact := all[int(share*float64(len(all)))-1]
		got := Quantile(h.buckets(), share)
		require.GreaterOrEqual(t, got, exact, "%v", share)
		require.LessOrEqual(t, got, exact+exact/8+16, "%v", share)
	}
	require.Zero(t, Quantile(nil, 0.99))
}

// TestLatencyByType checks that ended turns are counted by type, for a bounded number of types.
func TestLatencyByType(t *testing.T) {
	w := newTurnWatch(start)
	turn := func(kind, method string, took time.Duration) {
		w.Begin("key", Turn{EntityID{kind, "x"}, method, "c"}, start)
		w.End("key", false, start.Add(took))
	}
	for range 98 {
		turn("User", "Bid", time.Millisecond)
	}
	turn("User", "Free", time.Second)
	turn("User", "Free", 2*time.Second)
	r := w.Report(start)
	require.Len(t, r.Types, 1)
	require.Equal(t, "User", r.Types[0].Kind)
	require.InEpsilon(t, float64(time.Second), float64(Quantile(r.Types[0].Buckets, 0.99)), 0.13)
	require.InEpsilon(t, float64(time.Millisecond), float64(Quantile(r.Types[0].Buckets, 0.5)), 0.13)
	for i := range 2 * maxTypes {
		turn(fmt.Sprint("type", i), "Bid", time.Millisecond)
	}
	r = w.Report(start)
	require.Len(t, r.Types, maxTypes+1)
	require.Equal(t, TypeLatency{"…", []Bucket{{uint32(loglinear.Of(time.Millisecond)), maxTypes + 1}}}, r.Types[maxTypes])
}
