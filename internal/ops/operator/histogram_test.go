package operator

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/histogram"
)

// TestQuantile compares quantiles with those of the sorted times.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h []Bucket
	var all []time.Duration
	for range 10_000 {
		took := time.Duration(200 * (1 + r.ExpFloat64()*float64(r.IntN(1000))))
		all = append(all, took)
		h = append(h, Bucket{uint32(histogram.Of(took)), 1})
	}
	slices.Sort(all)
	for _, share := range []float64{0.5, 0.9, 0.99, 1} {
		exact := all[int(share*float64(len(all)))-1]
		got := Quantile(h, share)
		require.GreaterOrEqual(t, got, exact, "%v", share)
		require.LessOrEqual(t, got, exact+exact/8+16, "%v", share)
	}
	require.Zero(t, Quantile(nil, 0.99))
}
