package remember

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type home struct {
	id    placement.ShardID
	kind  Kind
	epoch placement.Epoch
	seq   uint64 // number of the latest change
	ids   map[string]struct{}
	came  int // how many ids came with the shard; may exceed Kind.Max
	waits []wait

	recall   *recall
	replicas []transport.Address
	tell     bool // other members may keep ids of the shard that are not needed any more
}

// wait is an Add that is not answered yet, because perhaps no replica has its change.
type wait struct {
	seq    uint64
	ticket Ticket
	added  bool
}

func (h *home) sorted() []string { return sortedIDs(h.ids) }

func sortedIDs(ids map[string]struct{}) []string { return slices.Sorted(maps.Keys(ids)) }

func (m *Machine) add(in Add) {
	h := m.homes[in.ShardID]
	if h == nil {
		m.done(in.Ticket, false, nil) // the shard has left, and its turns with it
		return
	}
	_, had := h.ids[in.ID]
	if !had {
		if len(h.ids) >= h.kind.Max {
			m.done(in.Ticket, false, fmt.Errorf("%w: %d", ErrFull, h.kind.Max))
			return
		}
		h.ids[in.ID] = struct{}{}
		m.changed(h, Change{ID: in.ID})
	}
	if in.Ticket != 0 {
		h.waits = append(h.waits, wait{h.seq, in.Ticket, !had})
		m.release(h)
	}
}

func (m *Machine) remove(in Remove) {
	h := m.homes[in.ShardID]
	if h == nil {
		return
	}
	if h.recall != nil {
		h.recall.gone[in.ID] = struct{}{}
	}
	if _, had := h.ids[in.ID]; had {
		delete(h.ids, in.ID)
		m.changed(h, Change{ID: in.ID, Gone: true})
	}
}

func (m *Machine) changed(h *home, c Change) {
	h.seq++
	if h.recall != nil && !c.Gone {
		delete(h.recall.gone, c.ID)
	}
	for _, a := range h.replicas {
		m.outboxes[a].queue(h.id).append(m.outboxes[a], h, c)
	}
	m.release(h) // without replicas it cannot become safer
}

func (m *Machine) assign(h *home) {
	if h.recall != nil {
		return
	}
	now := m.rank(h)
	for _, a := range h.replicas {
		if !slices.Contains(now, a) {
			h.tell = true
			if b := m.outboxes[a]; b != nil {
				b.forget(h.id)
			}
		}
	}
	was := h.replicas
	h.replicas = now
	for _, a := range now {
		if slices.Contains(was, a) {
			continue
		}
		b := m.outbox(a)
		b.keepAfterAll(h.id)
		b.queue(h.id).begin(b, h.id)
	}
	m.release(h)
	m.settle(h)
}

// rank returns the shard's replicas, chosen by rendezvous hashing, best first.
func (m *Machine) rank(h *home) []transport.Address {
	type scored struct {
		a     transport.Address
		score uint64
	}
	var all []scored
	for _, a := range m.order {
		if o := m.members[a]; o.Up && slices.Contains(o.Kinds, h.id.Kind) {
			all = append(all, scored{a, xxhash.Sum64String(h.id.String() + "@" + a.String())})
		}
	}
	slices.SortFunc(all, func(x, y scored) int {
		return cmp.Or(cmp.Compare(y.score, x.score), x.a.Compare(y.a))
	})
	var best []transport.Address
	for _, s := range all[:min(len(all), h.kind.Replicas)] {
		best = append(best, s.a)
	}
	return best
}

// safe returns the number of the latest change that a replica has. Without replicas, all changes
// count as safe.
func (m *Machine) safe(h *home) (seq uint64) {
	if len(h.replicas) == 0 {
		return h.seq
	}
	for _, a := range h.replicas {
		if q := m.outboxes[a].queues[h.id]; q.ready {
			seq = max(seq, q.acked)
		}
	}
	return seq
}

func (m *Machine) release(h *home) {
	if h.recall != nil {
		return
	}
	seq := m.safe(h)
	for len(h.waits) > 0 && h.waits[0].seq <= seq {
		m.done(h.waits[0].ticket, h.waits[0].added, nil)
		h.waits = h.waits[1:]
	}
}

// settle tells the other members to drop the shard's ids, once every replica has them.
func (m *Machine) settle(h *home) {
	if !h.tell || h.recall != nil {
		return
	}
	for _, a := range h.replicas {
		if !m.outboxes[a].queues[h.id].ready {
			return
		}
	}
	h.tell = false
	m.dropped[h.id] = max(m.dropped[h.id], h.epoch)
	if k := m.kept[h.id]; k != nil && k.epoch <= h.epoch {
		delete(m.kept, h.id)
	}
	for _, a := range m.order {
		if slices.Contains(h.replicas, a) {
			continue
		}
		b := m.outbox(a)
		b.drop(h, m.now.Add(m.config.DropDelay))
	}
}

func (m *Machine) acknowledged(from transport.Address, seq uint64) {
	b := m.outboxes[from]
	if b == nil || b.flight == nil || seq != b.seq {
		return
	}
	flight := b.flight
	b.flight, b.message = nil, Keep{}
	for _, s := range flight {
		h, q := m.homes[s.id], b.queues[s.id]
		if h == nil || q == nil || !s.sealed || s.epoch != h.epoch {
			continue
		}
		q.acked, q.ready = s.seq, true
		m.release(h)
		m.settle(h)
	}
}
