package remember

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// set is the ids of a shard at one moment of its home.
type set struct {
	epoch placement.Epoch
	seq   uint64
	ids   map[string]struct{}
}

// newer reports whether s is to be believed rather than o.
func (s set) newer(o set) bool {
	return s.epoch > o.epoch || s.epoch == o.epoch && s.seq > o.seq
}

// kept has the ids that this node keeps for a shard that runs elsewhere.
type kept struct {
	set          // the latest that is whole; epoch 0: none yet
	filling *set // the next one, while it comes
	from    transport.Address
}

func (k *kept) nothing() bool { return k.epoch == 0 && k.filling == nil }

// replicas keep the ids of shards that run elsewhere.
type replicas struct {
	node
	kept    map[placement.ShardID]*kept
	dropped map[placement.ShardID]placement.Epoch // up to which nothing need be kept
}

// keep takes changes in. A message that came before is only answered.
func (m *replicas) keep(from transport.Address, k Keep) {
	b := m.outbox(from)
	if k.Seq == b.taken+1 {
		b.taken++
		for _, p := range k.Parts {
			m.take(from, p)
		}
	}
	if k.Seq <= b.taken {
		m.send(from, Kept{k.Seq})
	}
}

func (m *replicas) take(from transport.Address, p Part) {
	k := m.kept[p.ShardID]
	if p.Drop {
		m.dropped[p.ShardID] = max(m.dropped[p.ShardID], p.Epoch)
		if k != nil && k.filling != nil && k.filling.epoch <= p.Epoch {
			k.filling = nil
		}
		if k != nil && k.epoch <= p.Epoch {
			k.set = set{}
		}
		if k != nil && k.nothing() {
			delete(m.kept, p.ShardID)
		}
		return
	}
	if p.Epoch < m.dropped[p.ShardID] {
		return // it was under way for longer than the shard stayed there
	}
	if k == nil {
		k = &kept{}
		m.kept[p.ShardID] = k
	}
	if p.Epoch < k.epoch || k.filling != nil && p.Epoch < k.filling.epoch {
		return // of a home that is not the shard's any more
	}
	if p.Reset {
		k.filling, k.from = &set{epoch: p.Epoch, ids: map[string]struct{}{}}, from
	}
	to := &k.set
	if k.filling != nil && k.from == from {
		to = k.filling
	}
	if to.epoch != p.Epoch {
		return
	}
	for _, c := range p.Changes {
		if c.Gone {
			delete(to.ids, c.ID)
		} else {
			to.ids[c.ID] = struct{}{}
		}
	}
	if to.seq = p.Seq; p.Seal {
		k.set, k.filling = *to, nil
	}
}

// best is the newest set of a shard that is known here.
func (m *replicas) best(id placement.ShardID) (best set) {
	if k := m.kept[id]; k != nil {
		best = k.set
	}
	if h := m.homes[id]; h != nil && h.recall == nil {
		if own := (set{h.epoch, h.seq, h.ids}); own.newer(best) {
			best = own
		}
	}
	return best
}

// answer sends the known ids of shards, as many as fit into one message.
func (m *replicas) answer(from transport.Address, r Recall) {
	var parts []Part
	budget := m.config.MaxBatch
	for _, w := range r.Wants {
		s := m.best(w.ShardID)
		p := Part{ShardID: w.ShardID, Epoch: s.epoch, Seq: s.seq}
		ids := slices.Sorted(maps.Keys(s.ids))
		i, found := slices.BinarySearch(ids, w.After)
		if found {
			i++
		}
		budget -= partOverhead + len(w.Kind)
		for _, id := range ids[i:] {
			if budget -= idOverhead + len(id); budget < 0 && len(p.Changes) > 0 {
				p.More = true
				break
			}
			p.Changes = append(p.Changes, Change{ID: id})
		}
		parts = append(parts, p)
		if budget <= 0 {
			break
		}
	}
	m.send(from, Recalled{r.Seq, parts})
}

// KeptFor is the number of ids that are kept for shards that run elsewhere.
func (m *replicas) KeptFor() (n int) {
	for _, k := range m.kept { //arch:order-free counts
		n += len(k.ids)
		if k.filling != nil {
			n += len(k.filling.ids)
		}
	}
	return n
}
