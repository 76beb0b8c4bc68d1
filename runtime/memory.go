package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/internal/loop"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/remember"
	"github.com/shardgen/shardgen/transport"
)

// memory drives what a node remembers: the ids of its own shards' entities, and
// those that it keeps for other members. It has a loop of its own, so that large
// sets do not hold heartbeats up. Everything that others call only posts to it.
type memory struct {
	node    *Node
	loop    *loop.Loop
	machine *remember.Machine
	books   map[string]*bookkeeper // of the types with a store, by name
	wakeAt  time.Time
	token   remember.Token
	waiting map[remember.Token]chan remember.Done
}

// How long an activation waits for its id to be safe.
const (
	keeperPatience = time.Second
	storePatience  = 3 * time.Second
)

func newMemory(n *Node) *memory {
	return &memory{node: n, loop: loop.New(), waiting: map[remember.Token]chan remember.Done{}}
}

// prepare makes the machines for the types that are hosted; nothing runs yet.
func (m *memory) prepare() {
	kinds := map[string]remember.Kind{}
	m.books = map[string]*bookkeeper{}
	for _, h := range m.node.hosted() {
		switch r := h.settings.remember; {
		case r == nil:
		case r.Store != nil:
			m.books[h.desc.Name] = newBookkeeper(m, h)
		default:
			kinds[h.desc.Name] = remember.Kind{Copies: r.Copies, Max: r.MaxPerShard}
		}
	}
	m.machine = remember.New(remember.Config{
		Self: m.node.plane.self.Address, Kinds: kinds,
		MaxBatch: min(48<<10, m.node.plane.link().MaxPayload()/4),
	})
}

func (m *memory) run(stop <-chan struct{}) {
	m.loop.Run(stop, m.tick, func() time.Time { return m.wakeAt })
}

// tick gives everybody the time.
func (m *memory) tick() {
	m.wakeAt = time.Time{}
	m.stepMachine(remember.Tick{})
	for _, b := range m.books {
		b.step(remember.Tick{})
	}
}

// step gives an input about one type to who remembers it.
func (m *memory) step(kind string, in remember.Input) {
	if b := m.books[kind]; b != nil {
		b.step(in)
		return
	}
	m.stepMachine(in)
}

func (m *memory) stepMachine(in remember.Input) {
	out := m.machine.Step(time.Now(), in)
	m.due(out.WakeAt)
	for _, e := range out.Send {
		body, err := remember.Encode(e.Message)
		m.node.control.send(transport.Peer{Address: e.To}, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, body, err)
	}
	m.finish(out.Done, out.Recalled, out.Start)
}

// due makes the loop wake up by then; too early does no harm.
func (m *memory) due(at time.Time) {
	if !at.IsZero() && (m.wakeAt.IsZero() || at.Before(m.wakeAt)) {
		m.wakeAt = at
	}
}

// finish answers the calls that waited, and starts the entities that are to be activated
// again.
func (m *memory) finish(done []remember.Done, recalled []remember.Recollection, start []remember.Start) {
	for _, d := range done {
		if ch := m.waiting[d.Token]; ch != nil {
			delete(m.waiting, d.Token)
			ch <- d
		}
	}
	for _, r := range recalled {
		if len(r.Silent) > 0 {
			m.node.log.Warn("entities may be forgotten: members that may remember more do not answer", "shard", r.ShardID.String(),
				"remembered", r.Found, "silent", fmt.Sprint(r.Silent))
		} else if r.Found > 0 {
			m.node.log.Debug("entities remembered", "shard", r.ShardID.String(), "entities", r.Found)
		}
	}
	for _, s := range start {
		if sh := m.node.hostedShard(s.ShardID); sh != nil {
			sh.host.starter.add(sh, s.IDs)
		}
	}
}

// message takes what a member says.
func (m *memory) message(from transport.Address, body []byte) error {
	msg, err := remember.Decode(body)
	if err != nil {
		return err
	}
	m.loop.Post(func() { m.stepMachine(remember.Receive{From: from, Message: msg}) })
	return nil
}

// viewChanged updates the members that may keep ids.
func (m *memory) viewChanged(v *membership.View) {
	var view remember.View
	for _, o := range v.ByAge {
		if o.Address == m.node.plane.self.Address || o.Status == membership.Down || !hostmeta.HostsAny(o.Member) {
			continue
		}
		view.Members = append(view.Members, remember.Member{
			Address: o.Address, Up: o.Status == membership.Up, Kinds: hostmeta.Kinds(o.Member),
		})
	}
	m.loop.Post(func() { m.stepMachine(view) })
}

// opened and left follow a shard. The caller holds the shard's lock, so that they
// come in order.
func (m *memory) opened(o remember.Open) { m.loop.Post(func() { m.step(o.Kind, o) }) }

func (m *memory) left(id placement.ShardID) {
	m.loop.Post(func() { m.step(id.Kind, remember.Close{ShardID: id}) })
}

// forget takes an entity's id away; the caller has its turn.
func (m *memory) forget(id placement.ShardID, entity string) {
	m.loop.Post(func() { m.step(id.Kind, remember.Remove{ShardID: id, ID: entity}) })
}

var errForgetful = errors.New("the store of remembered ids does not answer (is it up?)")

// add remembers an entity, whose turn the caller has, and waits until its id is
// safe. fresh is true when it was not remembered before.
func (m *memory) add(ctx context.Context, s *hostedShard, entity string) (fresh bool, err error) {
	done := make(chan remember.Done, 1)
	m.loop.Post(func() {
		m.token++
		m.waiting[m.token] = done
		m.step(s.ID.Kind, remember.Add{ShardID: s.ID, ID: entity, Token: m.token})
	})
	inStore := s.host.settings.remember.Store != nil
	limit := keeperPatience
	if inStore {
		limit = storePatience
	}
	patience := time.NewTimer(limit)
	defer patience.Stop()
	pl := s.plane()
	select {
	case d := <-done:
		if errors.Is(d.Err, remember.ErrFull) {
			d.Err = fmt.Errorf("%w: %w (raise RememberOptions.MaxPerShard, or use more shards)", ErrOverloaded, d.Err)
		}
		return d.New, d.Err
	case <-patience.C:
		pl.counters.add(rememberedLate)
		if inStore {
			return false, fmt.Errorf("%w within %v", errForgetful, limit)
		}
		return false, nil // it is sent on; nobody else is there to have it, or soon to be
	case <-ctx.Done():
		return false, ctx.Err()
	case <-pl.stop:
		return false, pl.errClosed()
	}
}

// ids are what travels with a shard; known is false when there may be more.
func (m *memory) ids(id placement.ShardID) (ids []string, known bool) {
	m.ask(func() {
		if b := m.books[id.Kind]; b != nil {
			ids, known = b.book.IDs(id)
			return
		}
		ids, known = m.machine.IDs(id)
	})
	return ids, known
}

// has reports whether an entity, whose turn the caller has, is remembered.
func (m *memory) has(id placement.ShardID, entity string) (has bool) {
	m.ask(func() {
		if b := m.books[id.Kind]; b != nil {
			has = b.book.Has(id, entity)
			return
		}
		has = m.machine.Has(id, entity)
	})
	return has
}

// flush waits until the stores have what they should, within a bound.
func (m *memory) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		idle := true
		m.ask(func() {
			for _, b := range m.books {
				idle = idle && b.book.Idle()
			}
		})
		if idle {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			m.node.log.Warn("the store of remembered entities does not have the last of them", "after", storePatience)
			return
		}
	}
}

// ask runs f on the loop and waits for it, unless the node ends.
func (m *memory) ask(f func()) {
	ended := make(chan struct{})
	m.loop.Post(func() {
		f()
		close(ended)
	})
	select {
	case <-ended:
	case <-m.node.plane.stop:
	}
}
