package durable

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
)

// A home is a process that has shards. It drives the cores as package shard does.
type home struct {
	r           *run
	name        string
	incarnation uint64
	clock       clock
	form        uint32 // of the states that its program writes; 0 means the first
	dead        bool
	frozen      bool
	backlog     []func() // inputs that came while it was frozen
	cutStore    bool     // from the store
	cutCluster  bool     // from the coordinator, callers and other homes
	cutControl  bool     // from the coordinator only
	tenures     map[int]*tenure
	used        map[[2]uint64]bool // shard and epoch
	met         map[int]uint64     // epochs that were met in the store
	handed      map[int]uint64     // epochs that were given up here
	floor       map[int]uint64     // of singletons: above all epochs of the store that were used or met here
}

// A tenure is a shard at a home.
type tenure struct {
	home     *home
	shard    int
	epoch    uint64
	core     *durable.Shard
	accounts map[string]*account
	waits    []wait // for tickets, in no order
	durable  durable.Ticket
	leased   time.Duration
	leaving  bool // when all is in records, the shard is given up
	woken    time.Duration
}

type wait struct {
	ticket durable.Ticket
	do     func()
}

func newHome(r *run) *home {
	r.named++
	h := &home{
		r: r, name: fmt.Sprintf("h%d", r.named), incarnation: r.w.random.Uint64() | 1, form: r.program(), clock: clock{r.w, r.skew()},
		tenures: map[int]*tenure{}, used: map[[2]uint64]bool{}, met: map[int]uint64{}, handed: map[int]uint64{}, floor: map[int]uint64{},
	}
	r.homes = append(r.homes, h)
	h.beat()
	return h
}

// do runs f in the process: now, or when it goes on, or never.
func (h *home) do(f func()) {
	switch {
	case h.dead:
	case h.frozen:
		h.backlog = append(h.backlog, f)
	default:
		f()
	}
}

// later runs f in the process after a while.
func (h *home) later(d time.Duration, f func()) { h.r.w.after(d, func() { h.do(f) }) }

func (h *home) thaw() {
	h.frozen = false
	all := h.backlog
	h.backlog = nil
	for _, f := range all {
		h.do(f)
	}
}

// beat reports the home's shards to the coordinator, now and then.
func (h *home) beat() {
	if !h.cutCluster && !h.cutControl {
		var report []held
		for _, shard := range h.r.shards() {
			if t := h.tenures[shard]; t != nil {
				report = append(report, held{shard, t.epoch})
			}
		}
		met, handed := copyOf(h.met), copyOf(h.handed)
		h.r.message(func() { h.r.coordinator.hear(h, report, met, handed) })
	}
	h.later(100*time.Millisecond, h.beat)
}

func copyOf(m map[int]uint64) map[int]uint64 {
	c := map[int]uint64{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// assign is the coordinator's word that the home has a shard.
func (h *home) assign(shard int, epoch uint64) {
	if t := h.tenures[shard]; t != nil {
		if t.epoch >= epoch {
			return
		}
		t.drop()
	}
	c := durable.Config{Epoch: epoch, Node: h.name, Incarnation: h.incarnation, Limits: h.r.plan.limits, Journal: h.r.plan.journaling}
	if c.Above = h.r.plan.singletons; c.Above {
		c.Epoch = max(h.floor[shard], 1) // in the store; that of the placement is another
	} else if key := [2]uint64{uint64(shard), epoch}; h.used[key] {
		h.met[shard] = max(h.met[shard], epoch)
		return
	}
	h.used[[2]uint64{uint64(shard), epoch}] = true
	t := &tenure{home: h, shard: shard, epoch: epoch, accounts: map[string]*account{}}
	h.tenures[shard] = t
	t.core = durable.New(h.clock.now(), c)
	h.r.w.trace("%s claims %d under %d", h.name, shard, epoch)
	t.step()
	if h.r.plan.sweeps > 0 {
		h.later(h.r.w.between(0, h.r.plan.sweeps), t.sweep)
	}
}

// leave is the coordinator's word that the shard goes elsewhere.
func (h *home) leave(shard int, epoch uint64) {
	if t := h.tenures[shard]; t != nil && t.epoch <= epoch {
		t.leaving = true
		t.core.Checkpoint(h.clock.now())
		t.step()
		h.later(time.Second, func() { // it does not wait for ever
			if h.tenures[shard] == t {
				t.drop()
			}
		})
	} else if t == nil {
		h.handed[shard] = max(h.handed[shard], epoch)
	}
}

func (t *tenure) drop() {
	t.core.FixEpoch()
	t.core.Drop()
	t.home.handed[t.shard] = max(t.home.handed[t.shard], t.epoch)
	t.step()
}

// take returns the core's effects; some appends begin a moment later.
func (t *tenure) take() durable.Effects {
	if w := t.home.r.w; t.core.Waiting() && w.chance(0.3) {
		t.home.later(w.between(0, 5*time.Millisecond), t.step)
		return t.core.Hold()
	}
	return t.core.Take()
}

// step carries out the core's effects.
func (t *tenure) step() {
	h, r := t.home, t.home.r
	if err := t.core.Check(); err != nil {
		r.w.fail("%s, shard %d: %v", h.name, t.shard, err)
	}
	out := t.take()
	for _, q := range out.Requests {
		r.server.ask(h, t.shard, q, func(a durable.Response) {
			h.do(func() {
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
	if t.core.State() == durable.Dropped {
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
		t.drop()
		return
	}
	t.wake()
}

// wake has the core ticked in time.
func (t *tenure) wake() {
	r := t.home.r
	at := r.w.now + max(t.core.Wake().Sub(t.home.clock.now()), 0)
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
		if e.Err != nil {
			r.w.fail("%s: shard %d ended: %v", t.home.name, t.shard, e.Err)
		}
		switch {
		case e.Epoch > 0 && r.plan.singletons: // another home has it now; this one may claim again
			t.home.handed[t.shard] = max(t.home.handed[t.shard], t.epoch)
			t.home.floor[t.shard] = max(t.home.floor[t.shard], e.Epoch+1)
		case e.Epoch > 0:
			t.home.met[t.shard] = max(t.home.met[t.shard], e.Epoch)
		}
	case durable.Opened:
		r.w.trace("%s has %d under %d", t.home.name, t.shard, t.epoch)
	default:
	}
}

// wait does something once a ticket is durable.
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

// sweep has records of some accounts looked at, whether they have expired or not.
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
	if r.calm && !t.core.Busy() && r.w.chance(0.5) { // often enough that settleTime has one for certain
		t.core.Advance(h.clock.now()) // as the driver does with a shard that is idle
	}
	t.step()
	h.later(r.w.between(0, r.plan.sweeps), t.sweep)
}

// tell sends a tell to the home of its target.
func (t *tenure) tell(tell durable.Tell) {
	h, r := t.home, t.home.r
	entity, amount := readBody(tell.Body)
	if _, there := r.judge.shards[t.shard].tells[tellKey(t.shard, tell.Target.Shard, tell.Number)]; !there {
		r.w.fail("invariant 4: a tell leaves before its commit")
	}
	c := &call{entity: entity, method: add, amount: amount, command: durable.Command{
		Source: durable.Source{Log: logName, Shard: uint32(t.shard)}, Number: tell.Number, Floor: tell.Floor,
	}}
	c.command.Hash = c.hash()
	r.counts.Tells++
	r.send(h, c, func(a answer) {
		if a.verdict == durable.Mismatch {
			r.w.fail("tell %d of shard %d to %s: another command has its id", tell.Number, t.shard, entity)
		}
		if ran(a.verdict) && a.result.failed { // it came, and its turn could not be committed
			r.judge.shards[t.shard].tells[tellKey(t.shard, tell.Target.Shard, tell.Number)] = true
		}
		if ran(a.verdict) || a.verdict == durable.BelowFloor {
			t.core.Arrived(h.clock.now(), tell.Target, tell.Number)
			t.step()
		}
	})
}

func ran(v durable.Verdict) bool { return v == durable.Run || v == durable.Replay }

// receive takes a call that came.
func (h *home) receive(c *call) {
	r := h.r
	shard := r.shardOf(c.entity)
	t := h.tenures[shard]
	if t == nil || t.leaving {
		c.answer(answer{verdict: durable.Closed})
		return
	}
	a := t.core.Admit(h.clock.now(), c.command)
	r.counts.verdict(a.Verdict)
	switch a.Verdict {
	case durable.Run:
		t.account(c.entity).enqueue(c)
	case durable.Replay:
		t.wait(a.Ticket, func() {
			c.answer(answer{durable.Replay, t.leavesCommit(c.entity, c.command, decodeResult(a.Answer))})
		})
	case durable.Running: // its caller asks again
	default:
		c.answer(answer{verdict: a.Verdict})
	}
	t.step()
}

// leavesCommit is leaves for the answer to a command that was applied, whose commit the judge
// knows: of lives of an entity, two may look the same.
func (t *tenure) leavesCommit(entity string, c durable.Command, r result) result {
	seen := t.leaves(entity, r)
	if now, there := t.home.r.judge.applied[commandKeyOf(c)]; there && c.Source.Incarnation != 0 {
		seen.version = now.ordinal
	}
	return seen
}

// leaves has the judge test the state that an answer saw. The version that callers are told is how
// many commits the entity has had.
func (t *tenure) leaves(entity string, r result) result {
	n, err := t.home.r.judge.ordinal(t.shard, entity, r)
	if err != nil {
		t.home.r.w.fail("%s: %v", t.home.name, err)
	}
	r.version = n
	return r
}
