package remember

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type outbox struct {
	to       transport.Address
	seq      uint64
	flight   []sent // parts of the message under way; nil means there is none
	message  Keep
	resendAt time.Time

	queues  map[placement.ShardID]*queue // of the shards whose ids the member keeps
	order   []placement.ShardID          // the shards with something to send, in turn
	drops   []Part                       // of shards whose ids it need not keep any more
	dropsAt time.Time                    // when drops are sent; zero means there are none

	taken uint64 // the number of the last Keep received from the member
}

type sent struct {
	id     placement.ShardID
	epoch  placement.Epoch
	seq    uint64
	sealed bool
}

type queue struct {
	stale   bool // the whole set is to be sent
	reset   bool // the next part begins the whole set
	changes []Change
	full    int    // how many of changes are still part of the whole set
	sealed  bool   // the whole set was sent
	seq     uint64 // the home's number of the last change that was sent
	acked   uint64 // the number up to which the replica has the changes
	ready   bool   // the replica has got a whole set
}

// slack is how many changes, beyond twice the number of ids, may wait for a silent replica. If
// there are more, all ids are sent instead, which is shorter.
const slack = 1024

func newOutbox(to transport.Address) *outbox {
	return &outbox{to: to, queues: map[placement.ShardID]*queue{}}
}

func (b *outbox) queue(id placement.ShardID) *queue {
	q := b.queues[id]
	if q == nil {
		q = &queue{}
		b.queues[id] = q
	}
	return q
}

// begin makes the next parts send all ids, under a new epoch of the home.
func (q *queue) begin(b *outbox, id placement.ShardID) {
	*q = queue{stale: true}
	b.has(id)
}

func (q *queue) append(b *outbox, h *home, c Change) {
	if !q.stale {
		q.changes = append(q.changes, c)
		if len(q.changes) > slack+2*len(h.ids) {
			q.stale, q.changes = true, nil
		}
	}
	b.has(h.id)
}

func (q *queue) empty() bool { return !q.stale && len(q.changes) == 0 }

func (b *outbox) has(id placement.ShardID) {
	if !slices.Contains(b.order, id) {
		b.order = append(b.order, id)
	}
}

func (b *outbox) forget(id placement.ShardID) {
	delete(b.queues, id)
	b.order = slices.DeleteFunc(b.order, func(o placement.ShardID) bool { return o == id })
}

func (b *outbox) drop(h *home, at time.Time) {
	b.keepAfterAll(h.id)
	b.drops = append(b.drops, Part{ShardID: h.id, Epoch: h.epoch, Drop: true})
	if b.dropsAt.IsZero() {
		b.dropsAt = at
	}
}

func (b *outbox) keepAfterAll(id placement.ShardID) {
	b.drops = slices.DeleteFunc(b.drops, func(p Part) bool { return p.ShardID == id })
	if len(b.drops) == 0 {
		b.dropsAt = time.Time{}
	}
}

func (q *queue) cut(h *home, budget int) (p Part, spent int) {
	if q.stale {
		*q = queue{reset: true, ready: q.ready, acked: q.acked, seq: h.seq, full: len(h.ids)}
		for _, id := range h.sorted() {
			q.changes = append(q.changes, Change{ID: id})
		}
	}
	p = Part{ShardID: h.id, Epoch: h.epoch, Reset: q.reset}
	q.reset = false
	n := 0
	for spent = partOverhead + len(h.id.Kind); n < len(q.changes); n++ {
		more := idOverhead + len(q.changes[n].ID)
		if n > 0 && spent+more > budget {
			break
		}
		spent += more
	}
	p.Changes = slices.Clone(q.changes[:n])
	if q.changes = q.changes[n:]; len(q.changes) == 0 {
		q.changes = nil
	}
	whole := min(n, q.full)
	q.full -= whole
	if q.full == 0 {
		p.Seal, q.sealed = !q.sealed, true
		q.seq += uint64(n - whole)
		p.Seq = q.seq
	}
	return p, spent
}

func (b *outbox) pump(m *Machine) {
	switch {
	case b.flight == nil:
		b.send(m)
	case !m.now.Before(b.resendAt):
		b.resendAt = m.now.Add(m.config.Resend)
		m.send(b.to, b.message)
	}
}

func (b *outbox) send(m *Machine) {
	var parts []Part
	budget := m.config.MaxBatch
	if !b.dropsAt.IsZero() && !m.now.Before(b.dropsAt) {
		n := min(len(b.drops), max(budget/(2*partOverhead), 1))
		parts, b.drops = append(parts, b.drops[:n]...), slices.Clone(b.drops[n:])
		for _, p := range parts {
			budget -= partOverhead + len(p.Kind)
			b.flight = append(b.flight, sent{id: p.ShardID})
		}
		if len(b.drops) == 0 {
			b.dropsAt = time.Time{}
		}
	}
	for len(b.order) > 0 && budget > partOverhead+idOverhead {
		id := b.order[0]
		h, q := m.homes[id], b.queues[id]
		p, spent := q.cut(h, budget)
		parts = append(parts, p)
		b.flight = append(b.flight, sent{id, p.Epoch, p.Seq, q.sealed})
		budget -= spent
		if q.empty() {
			b.order = b.order[1:]
		}
	}
	if parts == nil {
		return
	}
	b.seq++
	b.message, b.resendAt = Keep{b.seq, parts}, m.now.Add(m.config.Resend)
	m.send(b.to, b.message)
}
