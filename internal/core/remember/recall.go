package remember

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// recall is the search for the ids of a shard whose home was lost.
type recall struct {
	from     map[transport.Address]*answering // members that have not answered in full
	best     set
	gone     map[string]struct{} // ids that were forgotten here during the recall
	deadline time.Time
}

type answering struct {
	set
	after string
}

type asker struct {
	seq      uint64
	wants    []Want // nil means that no Recall is under way
	resendAt time.Time
}

const maxWants = 256

func (m *Machine) begin(h *home) {
	h.recall = &recall{
		from: map[transport.Address]*answering{}, gone: map[string]struct{}{},
		deadline: m.now.Add(m.config.Patience),
	}
	h.recall.best = m.best(h.id)
	for _, a := range m.order {
		h.recall.from[a] = &answering{}
	}
	m.recalls = append(m.recalls, h.id)
	m.maybeRecalled(h)
}

// ask sends a member a Recall, which requests the ids of shards that the member has not sent yet.
// If the member does not answer within Config.Resend, ask sends the Recall again.
func (m *Machine) ask(a transport.Address) {
	k := m.askers[a]
	if k == nil {
		if len(m.recalls) == 0 {
			return
		}
		k = &asker{}
		m.askers[a] = k
	}
	if k.wants != nil && m.now.Before(k.resendAt) {
		return
	}
	if k.wants == nil {
		for _, id := range m.recalls {
			if s := m.homes[id].recall.from[a]; s != nil && len(k.wants) < maxWants {
				k.wants = append(k.wants, Want{id, s.after})
			}
		}
		if k.wants == nil {
			return
		}
		k.seq++
	}
	k.resendAt = m.now.Add(m.config.Resend)
	m.send(a, Recall{k.seq, k.wants})
}

func (m *Machine) recalled(from transport.Address, r Recalled) {
	k := m.askers[from]
	if k == nil || k.wants == nil || r.Seq != k.seq {
		return
	}
	k.wants = nil
	for _, p := range r.Parts {
		h := m.homes[p.ShardID]
		if h == nil || h.recall == nil || h.recall.from[from] == nil {
			continue
		}
		s := h.recall.from[from]
		if s.epoch != 0 && (s.epoch != p.Epoch || s.seq != p.Seq) {
			*s = answering{} // the set has changed during the answer, so begin again
			continue
		}
		if s.ids == nil {
			s.epoch, s.seq, s.ids = p.Epoch, p.Seq, map[string]struct{}{}
		}
		for _, c := range p.Changes {
			s.ids[c.ID], s.after = struct{}{}, c.ID
		}
		if p.More {
			continue
		}
		if s.newer(h.recall.best) {
			h.recall.best = s.set
		}
		delete(h.recall.from, from)
		m.maybeRecalled(h)
	}
}

func (m *Machine) loseItsPatience() {
	for _, id := range slices.Clone(m.recalls) {
		if h := m.homes[id]; !m.now.Before(h.recall.deadline) {
			m.finish(h)
		}
	}
}

func (m *Machine) maybeRecalled(h *home) {
	if len(h.recall.from) == 0 {
		m.finish(h)
	}
}

// finish ends a recall. It combines the recalled ids with the changes made here meanwhile.
func (m *Machine) finish(h *home) {
	r := h.recall
	h.recall = nil
	m.recalls = slices.DeleteFunc(m.recalls, func(o placement.ShardID) bool { return o == h.id })
	var back []string
	for id := range r.best.ids { //arch:order-free sorted below
		if _, gone := r.gone[id]; !gone {
			back = append(back, id)
			h.ids[id] = struct{}{}
		}
	}
	slices.Sort(back)
	h.came = len(h.ids)
	silent := slices.SortedFunc(maps.Keys(r.from), transport.Address.Compare)
	m.out.Recalled = append(m.out.Recalled, Recollection{h.id, len(back), silent})
	m.activate(h, back)
	m.assign(h)
}

// set has a shard's ids as one home had them at one moment.
type set struct {
	epoch placement.Epoch
	seq   uint64
	ids   map[string]struct{}
}

func (s set) newer(o set) bool {
	return s.epoch > o.epoch || s.epoch == o.epoch && s.seq > o.seq
}

type kept struct {
	set          // the latest whole set; epoch 0 means none yet
	filling *set // the next set, while it arrives
	from    transport.Address
}

func (k *kept) nothing() bool { return k.epoch == 0 && k.filling == nil }

// keep applies a new Keep. It acknowledges old Keeps, too.
func (m *Machine) keep(from transport.Address, k Keep) {
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

func (m *Machine) take(from transport.Address, p Part) {
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
		return // the part was under way for longer than the shard stayed there
	}
	if k == nil {
		k = &kept{}
		m.kept[p.ShardID] = k
	}
	if p.Epoch < k.epoch || k.filling != nil && p.Epoch < k.filling.epoch {
		return // the sender is not the shard's home any more
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

func (m *Machine) best(id placement.ShardID) (best set) {
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

func (m *Machine) answer(from transport.Address, r Recall) {
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

// KeptFor returns the number of ids that this node keeps for shards that run elsewhere.
func (m *Machine) KeptFor() (n int) {
	for _, k := range m.kept { //arch:order-free counts
		n += len(k.ids)
		if k.filling != nil {
			n += len(k.filling.ids)
		}
	}
	return n
}
