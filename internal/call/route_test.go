package call_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestRouteBeginsAnew: after another founding of the cluster a lower epoch counts,
// nothing is asked of the homes before, and what waited goes first, in order.
func TestRouteBeginsAnew(t *testing.T) {
	old, next, newHome := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 2}, transport.Address{Name: "a", Incarnation: 3}
	outgoing := func(id uint64) call.Outgoing { return call.Outgoing{Envelope: wire.Envelope{ID: id}} }
	for name, prepare := range map[string]func(*call.Route){
		"unknown": func(*call.Route) {},
		"known":   func(r *call.Route) { r.Learn(old, placement.MakeEpoch(7, 3), 0, false) },
		"stopped": func(r *call.Route) {
			r.Learn(old, placement.MakeEpoch(7, 3), 0, false)
			r.LastSeq = 5
			r.Refused(old, outgoing(1), next, placement.MakeEpoch(7, 4))
		},
		"gone": func(r *call.Route) {
			r.Learn(old, placement.MakeEpoch(7, 3), 0, false)
			r.LastSeq = 5
			r.HomeDeparted(old, []call.Outgoing{outgoing(1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &call.Route{}
			prepare(r)
			if r.State != call.Known {
				r.Hold(outgoing(2))
			}
			waits := r.Held()
			require.Equal(t, call.Step{Ask: true}, r.BeginAnew())
			require.Equal(t, waits, r.Held())
			step := r.Learn(newHome, placement.MakeEpoch(1, 1), 0, false)
			require.True(t, step.Go)
			require.Zero(t, step.FlushTo)
			require.Empty(t, step.Via)
			require.Equal(t, newHome, r.Home)
			require.Len(t, step.Deliver, waits)
			for i := 1; i < len(step.Deliver); i++ {
				require.Less(t, step.Deliver[i-1].Envelope.ID, step.Deliver[i].Envelope.ID)
			}
		})
	}
}
