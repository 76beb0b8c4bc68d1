package remember

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// recall looks for the ids of a shard whose home was lost.
type recall struct {
	from     map[transport.Address]*answering // members that have not answered in full
	best     set
	gone     map[string]struct{} // ids that were forgotten here during the recall
	deadline time.Time
}

// answering is the part of a member's answer that has arrived.
type answering struct {
	set
	after string
}

// asker has the question to one member that is under way.
type asker struct {
	seq      uint64
	wants    []Want // nil: none is
	resendAt time.Time
}

// maxWants bounds the shards in one message.
const maxWants = 256

// recalling looks for the ids of shards that were lost elsewhere.
type recalling struct {
	hosting
	askers  map[transport.Address]*asker
	recalls []placement.ShardID // of homes that are recalled, in the order they opened
}

// begin recalls a shard that has opened here.
func (m *recalling) begin(h *home) {
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

// ask asks a member for the ids that it has not sent yet, or repeats the question.
func (m *recalling) ask(a transport.Address) {
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

// recalled handles an answer.
func (m *recalling) recalled(from transport.Address, r Recalled) {
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
			*s = answering{} // it has changed during the answer, so begin again
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

// loseItsPatience ends recalls that have waited for Config.Patience.
func (m *recalling) loseItsPatience() {
	for _, id := range slices.Clone(m.recalls) {
		if h := m.homes[id]; !m.now.Before(h.recall.deadline) {
			m.finish(h)
		}
	}
}

func (m *recalling) maybeRecalled(h *home) {
	if len(h.recall.from) == 0 {
		m.finish(h)
	}
}

// finish ends a recall: it combines the recalled ids with the changes that were made
// here meanwhile.
func (m *recalling) finish(h *home) {
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
