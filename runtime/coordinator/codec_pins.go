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
