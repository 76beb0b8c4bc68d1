package shard

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/measure"
)

// Load returns the node's load. It visits every entity, which takes some milliseconds for 100,000
// of them.
func (n *Node) Load() measure.Load {
	drv := n.driver
	l := measure.Load{
		BufferBytes: drv.Budget.Used(), BufferLimit: int64(drv.Config.BufferBytes), Refused: drv.Refusals.Snapshot(),
		Sent: map[string]uint64{}, Received: map[string]uint64{}, Downed: n.control.member.Traffic().Downed(),
	}
	for _, m := range n.control.member.Traffic().Messages() {
		l.Sent[m.Kind], l.Received[m.Kind] = m.Sent, m.Received
	}
	kinds := *drv.Kinds.Load()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t := measure.Type{Kind: name, Held: drv.HeldFor(name), Shards: map[string]int{}}
		if k := drv.ShardTable.Load().Type(name); k != nil {
			t.Homeless = homeless(k)
		}
		if h := kinds[name].Host; h != nil {
			node.LoadHosted(&t, h)
		}
		l.Types = append(l.Types, t)
	}
	return l
}

// Measure has the meter told of appends, moves and frames of the node from now on, until stop. A node that nobody
// measures reads no clock for it. Several meters may measure one node.
func (n *Node) Measure(m measure.Meter) (stop func()) {
	appends := &durablehost.Measured{} // of nothing, without a store
	if d := n.driver.Durable; d != nil {
		appends = &d.Appends.Measured
	}
	return n.driver.Meters.Add(&m, appends, &n.driver.Sessions)
}
