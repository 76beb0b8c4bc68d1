package coordinator

import (
	"slices"

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
	var group *wire.CoordinatorOwned
	var last Owned
	for i, o := range m.Owned {
		if i == 0 || o.Kind != last.Kind || o.State != last.State || o.Peer != last.Peer {
			group = &wire.CoordinatorOwned{Kind: o.Kind, State: uint32(o.State)}
			if !o.Peer.IsZero() {
				group.Peer = addressToWire(o.Peer)
			}
			w.Owned = append(w.Owned, group)
			last = Owned{}
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

func (r *reader) register(w *wire.CoordinatorRegister) Register {
	m := Register{Term: r.term(w.GetTerm()), Node: r.address(w.GetNode()), Seq: w.GetSeq()}
	for _, k := range w.GetKinds() {
		m.Kinds = append(m.Kinds, KindInfo{
			Name: r.kind(k.GetName()), Package: k.GetPackage(), Shards: k.GetShards(), HashName: k.GetHashName(), Hosts: k.GetHosts(),
			Tuning: Tuning{Allocation: k.GetAllocation(), MaxMoves: k.GetMaxMoves(), MinHosts: k.GetMinHosts()},
		})
	}
	for _, p := range w.GetPins() {
		m.Pins = append(m.Pins, r.pins(p))
	}
	for _, g := range w.GetOwned() {
		state := r.state(g.GetState())
		moves := g.GetMoves()
		if len(g.GetEpochs()) != len(g.GetShards()) || state != Active && len(moves) != len(g.GetShards()) {
			r.fail("owned shards of %q: columns of different lengths", g.GetKind())
		}
		last := Owned{ShardID: placement.ShardID{Kind: r.kind(g.GetKind())}, State: state}
		if g.GetPeer() != nil {
			last.Peer = r.address(g.GetPeer())
		}
		for i, shard := range g.GetShards() {
			if r.err != nil {
				return m
			}
			last.ShardID = r.shard(last.Kind, uint64(int64(last.Shard)+int64(shard)))
			last.Epoch += placement.Epoch(g.GetEpochs()[i])
			if state != Active {
				last.Move += placement.Epoch(moves[i])
			}
			m.Owned = append(m.Owned, last)
		}
	}
	return m
}

// tableToWire writes entries as runs of one owner and one epoch.
func tableToWire(t Table) *wire.CoordinatorTable {
	w := &wire.CoordinatorTable{
		From: versionToWire(t.From), To: versionToWire(t.To), Full: t.Full, Part: t.Part, Parts: t.Parts,
	}
	for _, a := range t.Gone {
		w.Gone = append(w.Gone, addressToWire(a))
	}
	owners := map[transport.Address]uint32{{}: 0}
	var runs *wire.CoordinatorRuns
	var last placement.Entry
	for i, e := range t.Entries {
		owner, ok := owners[e.Owner]
		if !ok {
			owner = uint32(len(owners))
			owners[e.Owner] = owner
			w.Owners = append(w.Owners, addressToWire(e.Owner))
		}
		if i == 0 || e.Kind != last.Kind || e.Shard <= last.Shard {
			runs = &wire.CoordinatorRuns{Kind: e.Kind}
			w.Kinds = append(w.Kinds, runs)
			last = placement.Entry{}
		}
		if n := len(runs.Length); n > 0 && e.Shard == last.Shard+1 && e.Owner == last.Owner && e.Epoch == last.Epoch {
			runs.Length[n-1]++
		} else {
			runs.Skip = append(runs.Skip, e.Shard-last.Shard-1)
			runs.Length = append(runs.Length, 0)
			runs.Owner = append(runs.Owner, owner)
			runs.Epoch = append(runs.Epoch, int64(e.Epoch-last.Epoch))
		}
		last = e
	}
	return w
}

func (r *reader) table(w *wire.CoordinatorTable) Table {
	t := Table{Part: w.GetPart(), Parts: w.GetParts(), Diff: placement.Diff{
		From: r.anyVersion(w.GetFrom()), To: r.version(w.GetTo()), Full: w.GetFull(),
	}}
	if t.Parts == 0 || t.Parts > maxParts || t.Part >= t.Parts {
		r.fail("part %d of %d: want one of 1 to %d", t.Part, t.Parts, maxParts)
	}
	for _, a := range w.GetGone() {
		t.Gone = append(t.Gone, r.address(a))
	}
	owners := []transport.Address{{}}
	for _, a := range w.GetOwners() {
		owners = append(owners, r.address(a))
	}
	for _, k := range w.GetKinds() {
		if r.err != nil {
			return t
		}
		t.Entries = r.runs(t.Entries, k, owners)
	}
	return t
}

// runs appends the entries of one kind. A few bytes can name many shards, so the
// sum is bounded before memory is taken.
func (r *reader) runs(entries []placement.Entry, w *wire.CoordinatorRuns, owners []transport.Address) []placement.Entry {
	n := len(w.GetSkip())
	if len(w.GetLength()) != n || len(w.GetOwner()) != n || len(w.GetEpoch()) != n {
		r.fail("table of %q: columns of different lengths", w.GetKind())
		return entries
	}
	kind := r.kind(w.GetKind())
	shard, epoch := uint64(0), placement.Epoch(0)
	for i := range n {
		shard += uint64(w.GetSkip()[i]) + 1
		end := shard + uint64(w.GetLength()[i])
		epoch += placement.Epoch(w.GetEpoch()[i])
		r.shard(kind, shard)
		r.shard(kind, end)
		if epoch == 0 {
			r.fail("table of %q: an entry without an epoch", kind)
		}
		if uint64(w.GetOwner()[i]) >= uint64(len(owners)) {
			r.fail("table of %q: owner %d of %d", kind, w.GetOwner()[i], len(owners)-1)
		}
		if uint64(len(entries))+end-shard+1 > maxPartEntries {
			r.fail("more than %d entries in one part", maxPartEntries)
		}
		if r.err != nil {
			return entries
		}
		entries = slices.Grow(entries, int(end-shard)+1)
		for ; shard <= end; shard++ {
			entries = append(entries, placement.Entry{
				ShardID: placement.ShardID{Kind: kind, Shard: uint32(shard)}, Owner: owners[w.GetOwner()[i]], Epoch: epoch,
			})
		}
		shard = end
	}
	return entries
}
