package coordinator

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

const (
	// maxKindBytes bounds the name of a kind on the wire.
	maxKindBytes = 256
	// maxParts bounds the parts of one difference.
	maxParts = 1 << 10
)

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

// tableToWire writes entries as runs of one home and one epoch.
func tableToWire(t Table) *wire.CoordinatorTable {
	w := &wire.CoordinatorTable{
		From: versionToWire(t.From), To: versionToWire(t.To), Full: t.Full, Part: t.Part, Parts: t.Parts,
	}
	for _, a := range t.Gone {
		w.Gone = append(w.Gone, addressToWire(a))
	}
	homes := map[transport.Address]uint32{{}: 0}
	var runs *wire.CoordinatorRuns
	var last placement.Entry
	for i, e := range t.Entries {
		home, ok := homes[e.Home]
		if !ok {
			home = uint32(len(homes))
			homes[e.Home] = home
			w.Homes = append(w.Homes, addressToWire(e.Home))
		}
		if i == 0 || e.Kind != last.Kind || e.Shard <= last.Shard {
			runs = &wire.CoordinatorRuns{Kind: e.Kind}
			w.Kinds = append(w.Kinds, runs)
			last = placement.Entry{}
		}
		if n := len(runs.Length); n > 0 && e.Shard == last.Shard+1 && e.Home == last.Home && e.Epoch == last.Epoch {
			runs.Length[n-1]++
		} else {
			runs.Skip = append(runs.Skip, e.Shard-last.Shard-1)
			runs.Length = append(runs.Length, 0)
			runs.Home = append(runs.Home, home)
			runs.Epoch = append(runs.Epoch, int64(e.Epoch-last.Epoch))
		}
		last = e
	}
	return w
}
