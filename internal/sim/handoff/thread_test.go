package handoff

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
)

// entitiesAShard is how many entities each shard has.
const entitiesAShard = 3

// callTimeout ends a call for which no answer comes.
const callTimeout = 5 * time.Second

// A thread does one thing after another, as a goroutine of a user's program does.
type thread struct {
	process *process
	name    string
	n       map[string]int
	stopped bool
	busy    bool
}

func entity(id placement.ShardID, i int) string { return fmt.Sprintf("e%d.%d", id.Shard, i) }

// threads begins the traffic.
func (w *world) threads() (all []*thread) {
	for _, p := range w.procs {
		for i := range 2 {
			t := &thread{process: p, name: fmt.Sprintf("%s.%d", p.name, i), n: map[string]int{}}
			all = append(all, t)
			w.after(w.upTo(20*time.Millisecond), t.next)
		}
	}
	return all
}

// next does one thing, then waits for it or not.
func (t *thread) next() {
	p := t.process
	if t.stopped || !p.alive || p.leaving || p.w.calm {
		return
	}
	id := p.w.shardIDs()[p.w.r.IntN(p.w.plan.shards)]
	e := entity(id, p.w.r.IntN(entitiesAShard))
	pause := p.w.upTo(25 * time.Millisecond)
	if p.w.one(4) {
		pause = 0
	}
	t.n[e]++
	pl := payload(t.name, e, t.n[e])
	p.w.oracle.ask(pl)
	if p.w.r.IntN(3) > 0 {
		p.routes[id].send(&wire.Envelope{
			Type: wire.TypeTell, Kind: []byte(id.Kind), Shard: id.Shard, Entity: []byte(e), Payload: []byte(pl),
		})
		p.w.after(pause, t.next)
		return
	}
	t.busy = true
	p.call(id, e, pl, nil, func() {
		t.busy = false
		p.w.after(pause, t.next)
	})
}

// call runs a local call on the entity, or sends one, until it ran.
func (p *process) call(id placement.ShardID, e, payload string, up []byte, done func()) {
	t := p.routes[id].target
	if t == nil || t.local == nil {
		p.encoded(id, e, payload, up, 0, done)
		return
	}
	s := t.local
	if entity := s.core.Begin(e, 0); entity != nil {
		s.localTurn(entity, payload, up, done)
		return
	}
	c := &inCall{payload: payload, chain: up}
	c.Entity, c.Sender, c.Local, c.Driver = e, p.self, true, c
	if len(up) > 0 {
		c.Chain = chain(up)
	}
	c.granted = func(entity *region.Entity) {
		if entity == nil {
			p.w.after(0, func() { p.encoded(id, e, payload, up, 0, done) })
			return
		}
		s.localTurn(entity, payload, up, done)
	}
	entity, v := s.deliver(c)
	switch v {
	case region.Run:
		s.localTurn(entity, payload, up, done)
	case region.Moved, region.Forward:
		p.encoded(id, e, payload, up, 0, done)
	case region.Overloaded, region.Circular:
		p.w.fail("%s: local %s is %v", p.name, payload, v)
	}
}

// encoded sends a call, again and again until it ran or its time is over.
func (p *process) encoded(id placement.ShardID, e, payload string, up []byte, try int, done func()) {
	if !p.alive {
		return
	}
	p.nextID++
	c := &ask{id: p.nextID}
	ended := false
	c.done = func(a answer) {
		ended = true
		switch {
		case a.lost:
			if !p.w.plan.mayLose {
				p.w.fail("%s: %s is lost", p.name, payload)
			}
			done()
		case a.code == wire.CodeOK:
			done()
		default:
			p.w.log("%s: call %s again, code %d", p.name, payload, a.code)
			p.w.after(min(time.Millisecond<<min(try, 6), 50*time.Millisecond), func() {
				p.encoded(id, e, payload, up, try+1, done)
			})
		}
	}
	p.pending[c.id] = c
	p.w.after(callTimeout, func() {
		if ended || !p.alive {
			return
		}
		if !p.w.plan.mayLose {
			p.w.fail("%s: no answer to %s", p.name, payload)
		}
		p.w.log("%s: call %s timed out", p.name, payload)
		delete(p.pending, c.id)
		p.routes[id].core.Drop(func(o call.Outgoing) bool { return o.Envelope.ID == c.id && o.Envelope.Type == wire.TypeCall })
		done()
	})
	p.routes[id].send(&wire.Envelope{
		Type: wire.TypeCall, ID: c.id, Kind: []byte(id.Kind), Shard: id.Shard,
		Entity: []byte(e), Payload: []byte(payload), Chain: up,
	})
}

// turn runs an encoded call.
func (s *hosted) turn(e *region.Entity, c *inCall) {
	s.run(e, c.payload, c.chain, func() { s.answer(c, wire.CodeOK) })
}

func (s *hosted) localTurn(e *region.Entity, payload string, up []byte, done func()) {
	s.run(e, payload, up, done)
}

// run is one turn: it takes a while, and sometimes calls another entity.
func (s *hosted) run(e *region.Entity, payload string, up []byte, done func()) {
	w, p := s.process.w, s.process
	w.oracle.begin(s, e, payload)
	end := func() {
		if !p.alive {
			return
		}
		w.oracle.end(s, e)
		next, drained := s.core.End(e, 0)
		if next != nil {
			s.start(e, inbound(next))
		}
		if drained {
			w.after(0, s.handOff)
		}
		done()
	}
	d := w.upTo(time.Millisecond)
	switch {
	case w.one(20):
		d = w.upTo(30 * time.Millisecond)
	case w.plan.aborts && w.one(40):
		d = w.upTo(2 * drainBound)
	}
	if to, id := s.callee(e.ID); to != "" && w.one(8) {
		links := wire.AppendLink(append([]byte(nil), up...), s.id.Kind, e.ID, s.id.Shard)
		w.oracle.nested++
		nested := fmt.Sprintf("turn%d/%s/1", w.oracle.nested, to)
		w.after(d, func() {
			if p.alive {
				p.call(id, to, nested, links, end)
			}
		})
		return
	}
	w.after(d, end)
}

// callee is whom an entity may call: only later ones, so that calls never circle.
func (s *hosted) callee(from string) (string, placement.ShardID) {
	ids := s.process.w.shardIDs()
	id := ids[s.process.w.r.IntN(len(ids))]
	to := entity(id, s.process.w.r.IntN(entitiesAShard))
	if to <= from {
		return "", id
	}
	return to, id
}
