package remember

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Machine remembers the entities of the shards of one node in the memory of other members, and
// keeps the ids that other members send it. It is not safe for concurrent use.
//
// Invariants:
//  1. Only shards that run here have queues of changes to send, and only to their replicas.
//  2. A shard whose ids are being recalled has no replicas.
//  3. A shard has at most Kind.Max ids, unless it came with more, or more were recalled.
//  4. A replica has acknowledged no change that the home does not have.
//  5. An Add waits only for a change that no replica has acknowledged.
type Machine struct {
	config Config
	now    time.Time
	out    Output // of the Step under way

	members  map[transport.Address]Member
	order    []transport.Address // keys of members, sorted
	outboxes map[transport.Address]*outbox

	homes   map[placement.ShardID]*home // shards that run here
	recalls []placement.ShardID         // of homes that are recalled, in the order they opened
	askers  map[transport.Address]*asker

	kept    map[placement.ShardID]*kept           // ids of shards that run elsewhere
	dropped map[placement.ShardID]placement.Epoch // no ids up to this epoch need be kept
}

// New returns a machine that knows nothing yet.
func New(c Config) *Machine {
	return &Machine{
		config:  c.withDefaults(),
		members: map[transport.Address]Member{}, outboxes: map[transport.Address]*outbox{},
		homes: map[placement.ShardID]*home{}, askers: map[transport.Address]*asker{},
		kept: map[placement.ShardID]*kept{}, dropped: map[placement.ShardID]placement.Epoch{},
	}
}

// Step handles one input and returns the resulting actions. now must not go back.
func (m *Machine) Step(now time.Time, in Input) Output {
	m.now, m.out = now, Output{}
	switch in := in.(type) {
	case View:
		m.view(in)
	case Open:
		m.open(in)
	case Close:
		m.close(in.ShardID)
	case Add:
		m.add(in)
	case Remove:
		m.remove(in)
	case Receive:
		m.receive(in.From, in.Message)
	case Tick:
	default:
		invariant.Failf("remember: a machine has no input %T", in)
	}
	m.loseItsPatience()
	for _, a := range m.order {
		if b := m.outboxes[a]; b != nil {
			b.pump(m)
		}
		m.ask(a)
	}
	m.out.WakeAt = m.wakeAt()
	if invariant.Enabled {
		if err := m.Check(); err != nil {
			invariant.Failf("remember after %T: %v", in, err)
		}
	}
	return m.out
}

func (m *Machine) receive(from transport.Address, msg Message) {
	if _, ok := m.members[from]; !ok {
		return // the message is sent again, and counts once the view has its sender
	}
	switch msg := msg.(type) {
	case Keep:
		m.keep(from, msg)
	case Kept:
		m.acknowledged(from, msg.Seq)
	case Recall:
		m.answer(from, msg)
	case Recalled:
		m.recalled(from, msg)
	}
}

func (m *Machine) view(v View) {
	was := m.members
	m.members, m.order = map[transport.Address]Member{}, nil
	for _, in := range v.Members {
		m.members[in.Address] = in
		m.order = append(m.order, in.Address)
	}
	slices.SortFunc(m.order, transport.Address.Compare)
	for a := range was { //arch:order-free each is dropped by itself
		if _, ok := m.members[a]; !ok {
			delete(m.outboxes, a)
			delete(m.askers, a)
			maps.DeleteFunc(m.kept, func(_ placement.ShardID, k *kept) bool {
				if k.filling != nil && k.from == a {
					k.filling = nil
				}
				return k.nothing()
			})
		}
	}
	for _, id := range slices.Clone(m.recalls) {
		h := m.homes[id]
		for a := range h.recall.from { //arch:order-free each is looked at by itself
			if _, ok := m.members[a]; !ok {
				delete(h.recall.from, a)
			}
		}
		m.maybeRecalled(h)
	}
	for _, id := range m.sortedHomes() {
		m.assign(m.homes[id])
	}
}

func (m *Machine) sortedHomes() []placement.ShardID {
	ids := make([]placement.ShardID, 0, len(m.homes))
	for id := range m.homes { //arch:order-free sorted below
		ids = append(ids, id)
	}
	slices.SortFunc(ids, placement.ShardID.Compare)
	return ids
}

func (m *Machine) wakeAt() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, b := range m.outboxes { //arch:order-free the earliest
		if b.flight != nil {
			sooner(b.resendAt)
		} else {
			sooner(b.dropsAt)
		}
	}
	for _, a := range m.askers { //arch:order-free the earliest
		if a.wants != nil {
			sooner(a.resendAt)
		}
	}
	for _, id := range m.recalls {
		sooner(m.homes[id].recall.deadline)
	}
	return at
}

// Has reports whether an entity of a shard that runs here is remembered.
func (m *Machine) Has(id placement.ShardID, entity string) (has bool) {
	if h := m.homes[id]; h != nil {
		_, has = h.ids[entity]
	}
	return has
}

// IDs returns the sorted ids of a shard that runs here. known is false during a recall, when ids
// may be missing.
func (m *Machine) IDs(id placement.ShardID) (ids []string, known bool) {
	h := m.homes[id]
	if h == nil {
		return nil, false
	}
	return h.sorted(), h.recall == nil
}

// Check returns an error for the first broken invariant.
func (m *Machine) Check() error {
	for a, b := range m.outboxes { //arch:order-free any violation will do
		for id, q := range b.queues { //arch:order-free any violation will do
			h := m.homes[id]
			switch {
			case h == nil || !slices.Contains(h.replicas, a):
				return fmt.Errorf("remember %v: invariant 1: there is a queue to %v, which is no replica", id, a)
			case q.acked > h.seq:
				return fmt.Errorf("remember %v: invariant 4: replica %v has acknowledged %d changes, but the home has %d", id, a, q.acked, h.seq)
			}
		}
	}
	for id, h := range m.homes { //arch:order-free any violation will do
		switch {
		case h.recall != nil && len(h.replicas) > 0:
			return fmt.Errorf("remember %v: invariant 2: the shard is being recalled, but has replicas %v", id, h.replicas)
		case len(h.ids) > h.kind.Max && len(h.ids) > h.came:
			return fmt.Errorf("remember %v: invariant 3: the shard has %d ids, want at most %d", id, len(h.ids), h.kind.Max)
		case h.recall == nil && len(h.waits) > 0 && h.waits[0].seq <= m.safe(h):
			return fmt.Errorf("remember %v: invariant 5: an Add waits for change %d, but changes up to %d are safe", id, h.waits[0].seq, m.safe(h))
		}
	}
	return nil
}

func (m *Machine) open(in Open) {
	h := m.homes[in.ShardID]
	if h != nil { // the shard never left
		h.epoch = max(h.epoch, in.Epoch)
		for _, a := range h.replicas {
			m.outboxes[a].queue(h.id).begin(m.outboxes[a], h.id)
		}
		if h.recall == nil {
			m.activate(h, h.sorted())
		}
		return
	}
	h = &home{id: in.ShardID, kind: m.config.Kinds[in.Kind].withDefaults(), epoch: in.Epoch, seq: 1, ids: map[string]struct{}{}, tell: true}
	m.homes[in.ShardID] = h
	if !in.Known {
		m.begin(h)
		return
	}
	for _, id := range in.IDs {
		h.ids[id] = struct{}{}
	}
	h.came = len(h.ids)
	m.activate(h, h.sorted())
	m.assign(h)
}

// close keeps the shard's ids until the next home says that it has them.
func (m *Machine) close(id placement.ShardID) {
	h := m.homes[id]
	if h == nil {
		return
	}
	delete(m.homes, id)
	for _, a := range h.replicas {
		m.outboxes[a].forget(id)
	}
	m.recalls = slices.DeleteFunc(m.recalls, func(o placement.ShardID) bool { return o == id })
	for _, w := range h.waits {
		m.done(w.ticket, w.added, nil) // the entity is remembered where the shard has gone
	}
	if k := m.kept[id]; h.recall == nil && (k == nil || k.epoch < h.epoch) {
		m.kept[id] = &kept{set: set{h.epoch, h.seq, h.ids}}
	}
}

func (m *Machine) send(to transport.Address, msg Message) {
	m.out.Send = append(m.out.Send, Envelope{to, msg})
}

func (m *Machine) done(t Ticket, added bool, err error) {
	if t != 0 {
		m.out.Done = append(m.out.Done, Done{t, added, err})
	}
}

func (m *Machine) activate(h *home, ids []string) {
	if len(ids) > 0 {
		m.out.Activate = append(m.out.Activate, Activate{h.id, ids})
	}
}

func (m *Machine) outbox(to transport.Address) *outbox {
	b := m.outboxes[to]
	if b == nil {
		b = newOutbox(to)
		m.outboxes[to] = b
	}
	return b
}
