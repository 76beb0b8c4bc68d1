package coordinator

import "github.com/shardgen/shardgen/internal/wire"

// pinsToWire names each node once: a pin costs some three bytes then.
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
