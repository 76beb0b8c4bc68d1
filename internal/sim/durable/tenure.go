package durable

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/reminders"
)

// tenure is the time for which a home has a shard under one epoch.
type tenure struct {
	home     *home
	shard    int
	epoch    uint64
	core     *durable.Shard
	accounts map[string]*account
	waits    []wait // for tickets, in no order
	durable  durable.Ticket
	leased   time.Duration
	leaving  bool // the shard is given up once all commits are in records
	lists    map[uint64]list
	cursor   string // the end of the last page
	finds    map[uint64]find
	found    string // the end of the last page of a find
	woken    time.Duration
	retries  reminders.Retries
}

type wait struct {
	ticket durable.Ticket
	do     func()
}

func (t *tenure) account(id string) *account {
	a := t.accounts[id]
	if a == nil {
		a = &account{t: t, id: id}
		t.accounts[id] = a
		a.load()
	}
	return a
}

func (t *tenure) loaded(l durable.Loaded) {
	if l.Err != nil {
		t.home.r.w.fail("%v", l.Err)
	}
	if a := t.accounts[l.Entity]; a != nil {
		a.take(l)
		a.next()
	}
}

func (t *tenure) drop() {
	t.core.FixEpoch()
	t.core.Drop()
	t.home.handed[t.shard] = max(t.home.handed[t.shard], t.epoch)
	t.step()
}

// take returns the core's effects. At random it holds appends back for up to 5 ms.
func (t *tenure) take() durable.Effects {
	if w := t.home.r.w; t.core.Waiting() && w.chance(0.3) {
		t.home.later(w.between(0, 5*time.Millisecond), t.step)
		return t.core.Hold()
	}
	return t.core.Take()
}

func (t *tenure) step() {
	h, r := t.home, t.home.r
	if err := t.core.Check(); err != nil {
		r.w.fail("%s, shard %d: %v", h.name, t.shard, err)
	}
	t.fire()
	out := t.take()
	for _, q := range out.Requests {
		r.server.ask(h, t.shard, q, func(a durable.Response) {
			h.do(func() {
				h.verify()
				t.core.Done(h.clock.now(), a)
				t.step()
			})
		})
	}
	for _, e := range out.Events {
		t.event(e)
	}
	for _, tell := range out.Tells {
		t.tell(tell)
	}
	for _, l := range out.Loaded {
		t.loaded(l)
	}
	for _, p := range out.Pages {
		if _, is := t.finds[p.List]; is {
			t.foundPage(p)
		} else {
			t.page(p)
		}
	}
	if t.core.State() == durable.Dropped {
		h.known[t.shard], h.told[t.shard] = t.core.Mark(), max(h.told[t.shard], t.core.NextTell())
		h.floor[t.shard] = max(h.floor[t.shard], t.core.Epoch()+1)
		if h.tenures[t.shard] == t {
			delete(h.tenures, t.shard)
		}
		return
	}
	if out.Durable > t.durable {
		t.durable = out.Durable
		t.release()
	}
	if t.leaving && !t.core.Busy() {
		if t.core.State() == durable.Open {
			r.leftInOrder(t)
		}
		t.drop()
		return
	}
	t.wake()
}

// fire runs the due reminders of the accounts.
func (t *tenure) fire() {
	h := t.home
	if !h.r.plan.reminders || t.leaving || t.core.State() != durable.Open {
		return
	}
	for _, id := range t.core.Due(h.clock.now(), h.storeNow()) {
		t.account(id).enqueue(&call{entity: id, method: fire, answer: func(answer) {
			t.core.Looked(h.clock.now(), id, h.storeNow()+500) // a later program wrote the state: look again later
		}})
	}
}

func (t *tenure) wake() {
	r := t.home.r
	at := r.w.now + max(t.core.Wake().Sub(t.home.clock.now()), 0)
	if due := t.core.DueAt(); r.plan.reminders && due != math.MaxInt64 {
		at = min(at, r.w.now+max(time.Duration(due-t.home.storeNow())*time.Millisecond, time.Millisecond))
	}
	if t.woken > r.w.now && t.woken <= at {
		return
	}
	t.woken = at
	t.home.later(at-r.w.now, func() {
		if t.woken == at && t.core.State() != durable.Dropped {
			t.woken = 0
			t.core.Tick(t.home.clock.now())
			t.step()
		}
	})
}

func (t *tenure) event(e durable.Event) {
	r := t.home.r
	r.w.trace("%s/%d event %d position %d epoch %d n %d %v", t.home.name, t.shard, e.Kind, e.Position, e.Epoch, e.N, e.Err)
	r.counts.event(e, r.plan.singletons)
	switch e.Kind {
	case durable.Ended:
		switch {
		case e.Err != nil && r.judge.shards[t.shard].crashed:
			r.judge.shards[t.shard].forked = false
			r.closed(t, e.Err)
		case e.Err != nil:
			r.w.fail("%s: shard %d ended: %v", t.home.name, t.shard, e.Err)
		}
		switch {
		case e.Epoch == t.core.Epoch() && r.judge.shards[t.shard].promiser == t.home: // the home has given the shard up by itself
			r.judge.shards[t.shard].named = r.judge.headOf(t.shard) == t.home.incarnation // else the head is another home's
			t.home.met[t.shard] = max(t.home.met[t.shard], e.Epoch)
		case e.Epoch > 0 && r.plan.singletons: // another home has the shard now; this one may claim it again
			t.home.handed[t.shard] = max(t.home.handed[t.shard], t.epoch)
			t.home.floor[t.shard] = max(t.home.floor[t.shard], e.Epoch+1)
		case e.Epoch > 0:
			t.home.met[t.shard] = max(t.home.met[t.shard], e.Epoch)
		}
	case durable.Resent, durable.Orphaned:
		if r.judge.shards[t.shard].crashed {
			break
		}
		r.w.fail("%s: shard %d: event %d reports %d lost appends, but the store has lost none", t.home.name, t.shard, e.Kind, e.N)
	case durable.Opened:
		r.w.trace("%s has %d under %d", t.home.name, t.shard, t.epoch)
		r.judge.opened(t.shard, t.home)
	default:
	}
}

func (t *tenure) wait(ticket durable.Ticket, do func()) {
	if ticket <= t.durable {
		do()
		return
	}
	t.waits = append(t.waits, wait{ticket, do})
}

func (t *tenure) release() {
	var due []wait
	t.waits = slices.DeleteFunc(t.waits, func(w wait) bool {
		if w.ticket <= t.durable {
			due = append(due, w)
			return true
		}
		return false
	})
	for _, w := range due {
		w.do()
	}
}

// sweep checks whether some accounts have expired. After the faults have ended, it checks all.
func (t *tenure) sweep() {
	h, r := t.home, t.home.r
	if t.core.State() == durable.Dropped {
		return
	}
	var ids []string
	for i := range r.plan.accounts {
		if id := fmt.Sprintf("a%d", i); r.shardOf(id) == t.shard && (r.calm || r.w.chance(0.5)) {
			ids = append(ids, id)
		}
	}
	if t.core.Sweep(h.clock.now(), ids) {
		r.counts.Swept++
	}
	if r.calm && !t.core.Busy() && r.w.chance(0.5) { // often enough for at least one within settleTime
		t.core.Advance(h.clock.now()) // the driver does the same with an idle shard
	}
	t.step()
	h.later(r.w.between(0, r.plan.sweeps), t.sweep)
}

func (t *tenure) tell(tell durable.Tell) {
	h, r := t.home, t.home.r
	if _, there := r.judge.shards[t.shard].tells[tellKey(t.shard, targetOf(tell.Target.Log, tell.Target.Shard), tell.Number)]; !there {
		r.w.fail("invariant 4: a tell leaves before its commit")
	}
	if tell.Target.Log == durable.Published {
		t.publish(tell)
		return
	}
	entity, amount := readBody(tell.Body)
	c := &call{entity: entity, method: add, amount: amount, command: durable.Command{
		Source: durable.Source{Log: logName, Shard: uint32(t.shard)}, Number: tell.Number, Floor: tell.Floor,
	}}
	c.command.Hash = c.hash()
	r.counts.Tells++
	r.send(h, c, func(a answer) {
		if a.verdict == durable.Mismatch {
			r.w.fail("tell %d of shard %d to %s: its receiver knows another command by this id", tell.Number, t.shard, entity)
		}
		if ran(a.verdict) && a.result.failed { // the tell arrived, but its turn was not committed
			r.judge.shards[t.shard].tells[tellKey(t.shard, tell.Target.Shard, tell.Number)] = true
		}
		if ran(a.verdict) || a.verdict == durable.BelowFloor {
			t.core.Arrived(h.clock.now(), tell.Target, tell.Number)
			t.step()
		}
	})
}

// leavesCommit does what leaves does, for applied commands. The version comes from the command's
// commit, because two lives of an entity may have equal states.
func (t *tenure) leavesCommit(entity string, c durable.Command, r result) result {
	seen := t.leaves(entity, r)
	if now, there := t.home.r.judge.applied[commandKeyOf(c)]; there && c.Source.Incarnation != 0 {
		seen.version = now.ordinal
	}
	return seen
}

// leaves makes the judge check the state that an answer saw. The returned result's version is the
// judge's ordinal.
func (t *tenure) leaves(entity string, r result) result {
	n, err := t.home.r.judge.ordinal(t.shard, entity, r)
	if err != nil {
		t.home.r.w.fail("%s: %v", t.home.name, err)
	}
	r.version = n
	return r
}
