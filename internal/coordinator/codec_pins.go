package coordinator

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// pinsToWire names each node once: a wish costs some three bytes then.
func pinsToWire(p Pins) *wire.CoordinatorPins {
	w := &wire.CoordinatorPins{Kind: p.Kind, Seq: uint64(p.Seq)}
	places := map[string]uint32{"": 0}
	last := uint32(0)
	for _, pin := range p.Pins {
		at, ok := places[pin.Node]
		if !ok {
			at = uint32(len(places))
			places[pin.Node] = at
			w.Nodes = append(w.Nodes, pin.Node)
		}
		w.Shards = append(w.Shards, int32(pin.Shard)-int32(last))
		w.Homes = append(w.Homes, at)
		last = pin.Shard
	}
	return w
}

func (r *reader) pins(w *wire.CoordinatorPins) Pins {
	p := Pins{Kind: r.kind(w.GetKind()), Seq: placement.Epoch(w.GetSeq())}
	if len(w.GetShards()) != len(w.GetHomes()) {
		r.fail("pins of %q: columns of different lengths", w.GetKind())
		return p
	}
	for _, name := range w.GetNodes() {
		if err := transport.CheckName("node", name); err != nil {
			r.fail("%w", err)
		}
	}
	last := uint32(0)
	for i, shard := range w.GetShards() {
		id := r.shard(p.Kind, uint64(int64(last)+int64(shard)))
		home := w.GetHomes()[i]
		if int(home) > len(w.GetNodes()) {
			r.fail("pin of %v: node %d of %d", id, home, len(w.GetNodes()))
		}
		if r.err != nil {
			return p
		}
		pin := Pin{Shard: id.Shard}
		if home > 0 {
			pin.Node = w.GetNodes()[home-1]
		}
		p.Pins, last = append(p.Pins, pin), id.Shard
	}
	return p
}

func inspectedToWire(m Inspected) *wire.CoordinatorInspected {
	w := &wire.CoordinatorInspected{Id: m.ID}
	var group *wire.CoordinatorHeld
	for i, h := range m.Shards {
		if i == 0 || h.Kind != m.Shards[i-1].Kind {
			group = &wire.CoordinatorHeld{Kind: h.Kind}
			w.Kinds = append(w.Kinds, group)
		}
		group.Shards = append(group.Shards, h.Shard)
		group.States = append(group.States, uint32(h.State))
		group.Entities = append(group.Entities, h.Entities)
		group.Active = append(group.Active, h.Active)
		group.Waiting = append(group.Waiting, h.Waiting)
	}
	return w
}

func (r *reader) inspected(w *wire.CoordinatorInspected) Inspected {
	m := Inspected{ID: w.GetId()}
	for _, g := range w.GetKinds() {
		n := len(g.GetShards())
		if len(g.GetStates()) != n || len(g.GetEntities()) != n || len(g.GetActive()) != n || len(g.GetWaiting()) != n {
			r.fail("held shards of %q: columns of different lengths", g.GetKind())
			return m
		}
		kind := r.kind(g.GetKind())
		for i, shard := range g.GetShards() {
			m.Shards = append(m.Shards, Held{
				r.shard(kind, uint64(shard)), r.state(g.GetStates()[i]), g.GetEntities()[i], g.GetActive()[i], g.GetWaiting()[i],
			})
		}
	}
	return m
}
