package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// TestCausesNameWhatIsWaitedFor checks the texts that say what a call without a home waits for, at
// a node and at a connection.
func TestCausesNameWhatIsWaitedFor(t *testing.T) {
	now := time.Now()
	drv := New(Config{Cluster: "test", Name: "a"}).driver
	k := drv.Kind(codegen.Kind{Name: "Cart", Package: "shop"})
	r := k.Route(k.Shards)
	drv.Reach.Note(transport.Control, false, now.Add(-4200*time.Millisecond))
	require.EqualError(t, r.WaitsFor(now), "the entity's shard has no home yet: NATS has not been reached for 4.2s")
	drv.Reach.Note(transport.Control, true, now)
	require.EqualError(t, r.WaitsFor(now), "the entity's shard has no home yet: node a is not up yet")
	r.Core.State, r.Core.Home = stream.Stopped, transport.Address{Name: "n1"}
	err := r.WaitsFor(now)
	require.EqualError(t, err, "the entity's shard kept moving: shard 256 of Cart leaves n1, and its next home is not known yet")
	require.ErrorIs(t, err, node.ErrMoving)

	moved := k.Route(k.Shards + 3)
	moved.Learn(transport.Address{Name: "n1", Incarnation: 1}, 1, false)
	moved.Core.LastSeq = 5 // n1 has not acknowledged this message
	moved.Learn(transport.Address{Name: "n2", Incarnation: 2}, 2, false)
	require.EqualError(t, moved.WaitsFor(moved.LeftLocked().Add(4200*time.Millisecond)),
		"the entity's shard kept moving: shard 259 of Cart moves from n1 to n2 (for 4.2s)")

	drv.Reach.Note(transport.Control, false, now.Add(-time.Second))
	require.EqualError(t, r.NoInstance(now), "no instance of the singleton runs: NATS has not been reached for 1s")
	drv.Reach.Note(transport.Control, true, now)
	drv.Control.(*controlLoop).member.Reasons().Note("Cart", "n1 waits for its lease: held by n2", time.Now())
	require.EqualError(t, r.NoInstance(time.Now()), "no instance of the singleton runs: n1 waits for its lease: held by n2")
	require.EqualError(t, r.NoInstance(time.Now().Add(time.Second)), "no instance of the singleton runs: n1 waits for its lease: held by n2 (for 1s)")

	c := &connPlane{kinds: map[string]uint32{"Cart": 256}, heardAt: now}
	why, hosted := c.Waits("Shop", now)
	require.False(t, hosted)
	require.Equal(t, "no member hosts Shop, only Cart (start a node that calls HostShop)", why)
	why, _ = (&connPlane{heardAt: now}).Waits("Shop", now)
	require.Equal(t, "no member hosts Shop (start a node that calls HostShop)", why)
	c.reasons.Note("Cart", "the coordinator waits for n2", now.Add(-2*time.Second))
	c.reasons.Note("Cart", "the coordinator waits for n2", now.Add(-time.Second))
	why, hosted = c.Waits("Cart", now)
	require.True(t, hosted)
	require.Equal(t, "the coordinator waits for n2 (for 2s)", why)
	why, _ = c.Waits("Cart", now.Add(10*time.Second))
	require.Equal(t, "no member has answered this process for 10s (is one up?)", why)
	require.Empty(t, c.reasons.Lately("Cart", now.Add(10*time.Second)), "a reason that is over")
}
