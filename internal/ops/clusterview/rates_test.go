package clusterview

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
)

// TestRates checks that rates are those between two answers, summed over members, also if a member
// began to count again meanwhile.
func TestRates(t *testing.T) {
	ann := operator.EntityID{Kind: "User", ID: "ann"}
	answer := func(seconds, turns uint64) admin.Turns {
		return admin.Turns{
			Lasted:   time.Duration(seconds) * time.Second,
			Methods:  []admin.MethodTurns{{Kind: "User", Method: "Bid", Failed: turns / 10, Took: []operator.Bucket{{Number: 10, Turns: turns}, {Number: 100, Turns: turns / 50}}}},
			Window:   2 * time.Second,
			Entities: []admin.BusyEntity{{EntityID: ann, Turns: 200, Busy: 200 * time.Millisecond}},
			Callers:  []admin.BusyCaller{{From: "client web", To: ann, Calls: 200}},
			Running:  []admin.RunningTurn{{Turn: operator.Turn{EntityID: ann, Method: "Bid", From: "client web"}, For: time.Second}},
		}
	}
	before := []admin.NodeTurns{{Node: web1, Turns: answer(2, 100)}, {Node: web2, Turns: answer(20, 5000)}}
	after := []admin.NodeTurns{{Node: web1, Turns: answer(4, 300)}, {Node: web2, Turns: answer(2, 100)}, {Node: web2, Err: errors.New("late")}}
	r := RatesBetween("shop", before, after)
	require.Len(t, r.Methods, 1)
	slowest := operator.Quantile([]operator.Bucket{{Number: 100, Turns: 1}}, 1).Seconds()
	busy := operator.Sum([]operator.Bucket{{Number: 10, Turns: 300}, {Number: 100, Turns: 6}}).Seconds()
	require.InDelta(t, busy/306, r.Methods[0].Mean, 1e-12)
	r.Methods[0].Mean = 0
	require.Equal(t, MethodRate{"User", "Bid", 153, 15, 0, slowest, 306}, r.Methods[0])
	require.Len(t, r.Types, 1)
	require.InDelta(t, busy/306, r.Types[0].Mean, 1e-12)
	r.Types[0].Mean = 0
	require.Equal(t, []TypeRate{{"User", 153, 15, 0, slowest, slowest}}, r.Types, "of 306 turns between the answers, 6 are slow")
	require.Equal(t, []EntityRate{{"User", "ann", "web-1", 100, 0.1}, {"User", "ann", "web-2", 100, 0.1}}, r.Entities)
	require.Equal(t, []CallerRate{{"client web", "User", "ann", 100}, {"client web", "User", "ann", 100}}, r.Callers)
	require.InDelta(t, busy/2, r.Nodes[0].Busy+r.Nodes[1].Busy, 1e-12)
	r.Nodes[0].Busy, r.Nodes[1].Busy = 0, 0
	require.Equal(t, []NodeRate{{"web-1", 102, 0}, {"web-2", 51, 0}}, r.Nodes)
	require.Len(t, r.Running, 2)
	require.Equal(t, map[string]string{web2.String(): "late"}, r.Silent)
	require.InDelta(t, 2, r.Seconds, 0)
}
