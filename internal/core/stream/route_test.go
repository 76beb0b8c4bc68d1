package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestRouteBeginsAnew: after the cluster was founded again, a lower epoch counts, nothing is asked
// of earlier homes, and waiting calls go first, in order.
func TestRouteBeginsAnew(t *testing.T) {
	old, next, newHome := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 2}, transport.Address{Name: "a", Incarnation: 3}
	outgoing := func(id uint64) stream.Outgoing { return stream.Outgoing{Envelope: wire.Envelope{ID: id}} }
	for name, prepare := range map[string]func(*stream.Route){
		"unknown": func(*stream.Route) {},
		"known":   func(r *stream.Route) { r.Learn(old, placement.MakeEpoch(7, 3), 0, false) },
		"stopped": func(r *stream.Route) {
			r.Learn(old, placement.MakeEpoch(7, 3), 0, false)
			r.LastSeq = 5
			r.Refused(old, outgoing(1), next, placement.MakeEpoch(7, 4))
		},
		"gone": func(r *stream.Route) {
			r.Learn(old, placement.MakeEpoch(7, 3), 0, false)
			r.LastSeq = 5
			r.HomeDeparted(old, []stream.Outgoing{outgoing(1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &stream.Route{}
			prepare(r)
			if r.State != stream.Known {
				r.Hold(outgoing(2))
			}
			waits := r.Held()
			require.Equal(t, stream.Step{Ask: true}, r.BeginAnew())
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
