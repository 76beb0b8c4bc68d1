package clusterview

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
)

// TestTrends: rates and durations of a minute are those of all members that have it.
func TestTrends(t *testing.T) {
	now := time.Unix(3600*500+30, 0)
	ago := func(minutes int, lasted time.Duration, kind string, turns uint64, bucket uint32) admin.Minute {
		return admin.Minute{
			At: now.UTC().Truncate(time.Minute).Add(-time.Duration(minutes) * time.Minute), Lasted: lasted, Used: 0.5, Memory: 7,
			Types: []admin.TypeMinute{{Kind: kind, Failed: turns / 10, Took: []operator.Bucket{{Number: bucket, Turns: turns}}}},
		}
	}
	r := TrendsOf(now, map[string][]admin.Minute{
		"web-1": {ago(60, time.Minute, "Old", 1, 1), ago(1, time.Minute, "Cart", 600, 21), ago(0, 30*time.Second, "Cart", 300, 21)},
		"web-2": {ago(1, time.Minute, "Cart", 60, 81), ago(1, time.Minute, "Cart", 60, 81), ago(-1, time.Minute, "New", 1, 1)},
	})
	require.Len(t, r.Minutes, 60)
	require.Equal(t, now.Truncate(time.Minute).Unix(), r.Minutes[59])
	require.Len(t, r.Types, 1, "older and later minutes are left out")
	require.InDelta(t, 12, *r.All.Rate[58], 1e-9)
	require.InDelta(t, 1.2, *r.Types["Cart"].Failed[58], 1e-9)
	require.InDelta(t, 10, *r.All.Rate[59], 1e-9, "half of it is measured")
	require.Nil(t, r.All.Rate[57])
	slow, fast := operator.Quantile([]operator.Bucket{{Number: 81, Turns: 1}}, 1).Seconds(), operator.Quantile([]operator.Bucket{{Number: 21, Turns: 1}}, 1).Seconds()
	require.Equal(t, []float64{fast, slow}, []float64{*r.Types["Cart"].P50[58], *r.Types["Cart"].P99[58]})
	require.Nil(t, r.All.Commit[58])
	require.Equal(t, []float64{10, 0.5, 7}, []float64{*r.Members["web-1"].Rate[59], *r.Members["web-1"].Used[59], *r.Members["web-1"].Memory[59]})
	require.Nil(t, r.Members["web-2"].Rate[59])
}

func TestKeepMinutes(t *testing.T) {
	at := func(minute, used int) admin.Minute {
		return admin.Minute{At: time.Unix(int64(minute)*60, 0), Used: float64(used)}
	}
	require.Equal(t, []admin.Minute{at(2, 1), at(3, 2), at(4, 2)}, KeepMinutes([]admin.Minute{at(1, 1), at(2, 1), at(3, 1)}, []admin.Minute{at(3, 2), at(4, 2)}, time.Unix(120, 0)))
}
