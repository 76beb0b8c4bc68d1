package sharding

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
)

const entitiesAShard = 3

// callTimeout ends a call for which no answer comes.
const callTimeout = 5 * time.Second

func (w *world) timeout() time.Duration { return cmp.Or(w.plan.timeout, callTimeout) }

// A thread does one thing after another, as a goroutine of a user's program does.
type thread struct {
	process *process
	name    string
	n       map[string]int
	busy    bool
}

func entity(id placement.ShardID, i int) string { return fmt.Sprintf("e%d.%d", id.Shard, i) }

// startThreads begins the traffic of a process.
func (p *process) startThreads() {
	for i := range 2 {
		t := &thread{process: p, name: fmt.Sprintf("%s#%d.%d", p.name, p.self.Incarnation, i), n: map[string]int{}}
		p.threads = append(p.threads, t)
		p.after(p.w.upTo(20*time.Millisecond), t.next)
	}
}

// next does one thing. Then it waits for that thing, or goes on at once.
func (t *thread) next() {
	p := t.process
	if p.w.calm || p.host && p.control.status() >= membership.Leaving {
		return
	}
	id := p.w.ids[p.w.r.IntN(p.w.plan.shards)]
	if p.w.plan.pool > 0 && p.w.one(2) {
		var ok bool
		if id, ok = p.instance(); !ok {
			p.ask(poolName)
			p.after(p.w.upTo(25*time.Millisecond), t.next)
			return
		}
	}
	e := entity(id, p.w.r.IntN(entitiesAShard))
	pause := p.w.upTo(25 * time.Millisecond)
	if p.w.one(4) {
		pause = 0
	}
	t.n[e]++
	pl := payload(t.name, e, t.n[e])
	p.w.oracle.ask(pl)
	if p.w.r.IntN(3) > 0 {
		p.routes[id].pass(&wire.Envelope{
			Type: wire.TypeTell, Kind: []byte(id.Kind), Shard: id.Shard, Entity: []byte(e), Payload: []byte(pl),
			Command: commandOf(pl),
		})
		p.stranded(id)
		p.after(pause, t.next)
		return
	}
	t.busy = true
	patience := p.w.timeout()
	if p.w.plan.mayLose && p.w.one(8) {
		patience = p.w.upTo(20 * time.Millisecond)
	}
	p.call(id, e, pl, nil, p.w.now.Add(patience), func(o calls.Outcome) {
		t.busy = false
		if o != calls.Executed {
			pause += 5 * time.Millisecond
		}
		p.after(pause, t.next)
	})
}

// An operation is a call until its outcome is known.
type operation struct {
	process *process
	id      placement.ShardID
	entity  string
	payload string
	up      []byte // the encoded turns that wait for this call
	over    time.Time
	done    func(calls.Outcome)
}

// call runs a local call on the entity, or sends one.
func (p *process) call(id placement.ShardID, e, payload string, up []byte, over time.Time, done func(calls.Outcome)) {
	op := &operation{p, id, e, payload, up, over, done}
	if near := p.near[e]; near != nil && p.w.one(2) && p.shards[id].TryEnter(near, 0) {
		op.turn(p.shards[id], near) // a reference that has called the entity here does the same, whatever the route says
		return
	}
	s := p.routes[id].local()
	if s == nil {
		op.encoded(0)
		return
	}
	var entity *region.Entity
	if p.w.one(2) {
		entity = s.Enter(region.Hash(e), e, 0)
	} else {
		entity = s.Begin(e)
	}
	if entity != nil {
		p.near[e] = entity
		op.turn(s, entity)
		return
	}
	op.wait(s)
}

// wait makes a local call wait for its turn at a shard of this process.
func (op *operation) wait(s *hosted) {
	p := op.process
	c := &inCall{}
	c.Args, c.Links, c.Command = []byte(op.payload), op.up, commandOf(op.payload)
	c.Entity, c.Sender, c.Local, c.Driver = op.entity, p.self, true, c
	if len(op.up) > 0 {
		c.Chain = shardhost.Chain(op.up)
	}
	ended := false
	c.granted = func(entity *region.Entity) {
		ended = true
		if entity == nil {
			op.encoded(0)
			return
		}
		op.turn(s, entity)
	}
	entity, v := s.Deliver(&c.Call, p.w.now, nil)
	s.delivered(c, v)
	switch calls.NextLocally(v) {
	case calls.Run:
		op.turn(s, entity)
	case calls.Wait:
		p.after(op.over.Sub(p.w.now), func() {
			if ended {
				return
			}
			if s.Withdraw(&c.Call) {
				delete(s.queued, c)
				op.end(calls.NotExecuted)
			} // else the turn was granted at the same time
		})
	case calls.Encode:
		op.encoded(0)
	case calls.Refuse:
		if v == region.Circular {
			p.w.fail("%s: the local call %s gets the verdict %v", p.name, op.payload, v)
		}
		op.end(calls.NotExecuted)
	}
}

func (op *operation) turn(s *hosted, e *region.Entity) {
	s.run(e, op.payload, op.up, op.over, func(ran bool) {
		if ran {
			op.end(calls.Executed)
		} else {
			op.end(calls.NotExecuted)
		}
	})
}

func (op *operation) end(o calls.Outcome) {
	op.process.w.log("%s: %s: %v", op.process.name, op.payload, o)
	op.process.w.oracle.outcome(op, o)
	op.done(o)
}

// encoded sends the call as an envelope. It sends the call again as long as package calls decides
// so.
func (op *operation) encoded(try int) {
	p := op.process
	if !p.w.now.Before(op.over) {
		op.end(calls.NotExecuted)
		return
	}
	id := p.await(op.over, func(c *calls.Call, r calls.Result) {
		switch step, outcome := calls.NextStep(r.Code, nil); step {
		case calls.Withdraw:
			p.w.log("%s: call %s timed out", p.name, op.payload)
			how, _ := p.data.Withdraw(&p.routes[op.id].Route, c, c.Caller.(*ask).id, op.entity)
			op.end(calls.Withdrawn(how))
		case calls.SendAgain:
			p.w.log("%s: call %s again, code %d", p.name, op.payload, r.Code)
			p.after(min(calls.Pause(try), op.over.Sub(p.w.now)), func() { op.encoded(try + 1) })
		case calls.Return:
			op.end(outcome)
		}
	})
	p.routes[op.id].pass(&wire.Envelope{
		Type: wire.TypeCall, ID: id, Kind: []byte(op.id.Kind), Shard: op.id.Shard,
		Entity: []byte(op.entity), Payload: []byte(op.payload), Chain: op.up, Command: commandOf(op.payload),
		Timeout: uint64(op.over.Sub(p.w.now).Microseconds()),
	})
	p.stranded(op.id) // if the instance ended after it was chosen, nothing else would end the waiting
}

// commandOf returns the command id of a call or tell, which must arrive with the same payload.
func commandOf(payload string) []byte { return []byte("command of " + payload) }

func (s *hosted) turn(e *region.Entity, c *inCall) {
	if want := commandOf(string(c.Args)); !bytes.Equal(c.Command, want) {
		s.process.w.fail("%s: %s came with the command %q", s.process.name, c.Args, c.Command)
	}
	s.running[c] = e
	s.run(e, string(c.Args), c.Links, c.over(), func(ran bool) {
		code := wire.CodeOK
		if !ran {
			code = wire.CodeExpired
		}
		if !c.Tell {
			s.Answer(&c.Call, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code})
		} else if !ran {
			s.LoseTell(&c.Call)
		}
	})
}

// run is one turn: it waits for the lease, takes a while, and sometimes calls
// another entity.
func (s *hosted) run(e *region.Entity, payload string, up []byte, over time.Time, done func(ran bool)) {
	w, p := s.process.w, s.process
	end := func(ran bool) {
		for c, of := range s.running {
			if of == e && string(c.Args) == payload {
				delete(s.running, c)
			}
		}
		s.LeaveTurn(e, 0)
		done(ran)
	}
	switch {
	case p.ending, !over.IsZero() && !w.now.Before(over):
		end(false)
		return
	case !p.leased():
		p.after(5*time.Millisecond, func() { s.run(e, payload, up, over, done) })
		return
	}
	w.oracle.begin(s, e, payload)
	ended := func() {
		w.oracle.end(s, e)
		end(true)
	}
	d := w.upTo(time.Millisecond)
	switch {
	case w.one(20):
		d = w.upTo(30 * time.Millisecond)
	case w.plan.aborts && w.one(40):
		d = w.upTo(2 * drainBound)
	}
	if to, id := s.callee(e.ID); to != "" && w.one(8) {
		links := wire.AppendLink(append([]byte(nil), up...), s.ID.Kind, e.ID, s.ID.Shard)
		w.oracle.nested++
		nested := fmt.Sprintf("turn%d/%s/1", w.oracle.nested, to)
		p.after(d, func() {
			limit := w.now.Add(w.timeout())
			if !over.IsZero() && over.Before(limit) {
				limit = over
			}
			p.call(id, to, nested, links, limit, func(calls.Outcome) { ended() })
		})
		return
	}
	p.after(d, ended)
}

// callee returns an entity that the entity from may call. It is always a later one, so that no
// chain of calls is circular.
func (s *hosted) callee(from string) (string, placement.ShardID) {
	ids := s.process.w.ids
	id := ids[s.process.w.r.IntN(len(ids))]
	to := entity(id, s.process.w.r.IntN(entitiesAShard))
	if to <= from || !s.process.has(id) {
		return "", id
	}
	return to, id
}
