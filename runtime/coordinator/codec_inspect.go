package coordinator

import "github.com/shardgen/shardgen/internal/wire"

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
