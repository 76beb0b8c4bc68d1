package coordinator

import "github.com/shardgen/shardgen/internal/wire"

// registerToWire groups a node's shards by kind, state and peer: most are active, and
// then a shard costs three bytes.
func registerToWire(m Register) *wire.CoordinatorRegister {
	w := &wire.CoordinatorRegister{Term: termToWire(m.Term), Node: addressToWire(m.Node), Seq: m.Seq}
	for _, k := range m.Kinds {
		w.Kinds = append(w.Kinds, &wire.CoordinatorKind{
			Name: k.Name, Package: k.Package, Shards: k.Shards, HashName: k.HashName, Hosts: k.Hosts,
			Allocation: k.Allocation, MaxMoves: k.MaxMoves, MinHosts: k.MinHosts,
		})
	}
	for _, p := range m.Pins {
		w.Pins = append(w.Pins, pinsToWire(p))
	}
	if m.Pause.Seq != 0 {
		w.Pause = pauseToWire(m.Pause)
	}
	var group *wire.CoordinatorHeldShards
	var last HeldShard
	for i, o := range m.Shards {
		if i == 0 || o.Kind != last.Kind || o.State != last.State || o.Peer != last.Peer {
			group = &wire.CoordinatorHeldShards{Kind: o.Kind, State: uint32(o.State)}
			if !o.Peer.IsZero() {
				group.Peer = addressToWire(o.Peer)
			}
			w.Shards = append(w.Shards, group)
			last = HeldShard{}
		}
		group.Shards = append(group.Shards, int32(o.Shard)-int32(last.Shard))
		group.Epochs = append(group.Epochs, int64(o.Epoch-last.Epoch))
		if o.State != Active {
			group.Moves = append(group.Moves, int64(o.Move-last.Move))
		}
		last = o
	}
	return w
}
