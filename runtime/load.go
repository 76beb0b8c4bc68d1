package shard

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/measure"
)

// Load returns the node's load. It visits every entity, which takes some milliseconds for 100,000
// of them.
func (n *Node) Load() measure.Load {
	drv := n.driver
	l := measure.Load{
		BufferBytes: drv.budget.Used(), BufferLimit: int64(drv.cfg.BufferBytes), Refused: drv.refusals.snapshot(),
		Sent: map[string]uint64{}, Received: map[string]uint64{}, Downed: n.control.member.Traffic().Downed(),
	}
	for _, m := range n.control.member.Traffic().Messages() {
		l.Sent[m.Kind], l.Received[m.Kind] = m.Sent, m.Received
	}
	kinds := *drv.kinds.Load()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t := measure.Type{Kind: name, Held: drv.heldFor(name), Shards: map[string]int{}}
		if k := drv.table.Load().Type(name); k != nil {
			t.Homeless = homeless(k)
		}
		if h := kinds[name].host; h != nil {
			loadHosted(&t, h)
		}
		l.Types = append(l.Types, t)
	}
	return l
}

// Measure has the meter told of appends, moves and frames of the node from now on, until stop. A node that nobody
// measures reads no clock for it. Several meters may measure one node.
func (n *Node) Measure(m measure.Meter) (stop func()) {
	appends := &durablehost.Measured{} // of nothing, without a store
	if d := n.driver.durable; d != nil {
		appends = &d.Appends.Measured
	}
	return n.driver.meters.add(&m, appends, &n.driver.peers)
}

// loadHosted fills in the part of a type that is hosted.
func loadHosted(t *measure.Type, h *host) {
	for i := range h.shards {
		s := &h.shards[i]
		o, ok := s.Held()
		if !ok {
			continue
		}
		t.Shards[o.State.String()]++
		s.Mu.Lock()
		t.Entities += s.Core.Entities()
		t.Active += s.Core.Active()
		t.Opening += s.Core.Waiting()
		t.Queued += s.Core.Queued()
		t.WaitingBytes += int64(s.Core.Bytes())
		s.Mu.Unlock()
	}
	h.tally.load(t)
}
