package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

type account struct {
	t       *tenure
	id      string
	loaded  bool
	busy    bool
	balance int64
	version uint64
	fresh   bool      // the account has no state
	expires int64     // as of its last commit; 0 means never
	newer   bool      // a later program wrote its state
	began   time.Time // when its last turn began
	mailbox []*call
	idled   int
}

func (a *account) load() {
	a.loaded = false
	if l, ok := a.t.core.Load(a.t.home.clock.now(), a.id); ok {
		a.take(l)
	}
}

func (a *account) take(l durable.Loaded) {
	a.loaded, a.version, a.balance, a.fresh, a.expires = true, l.Version, 0, !l.Found, l.Expires
	r, h := a.t.home.r, a.t.home
	if a.newer = l.Found && l.Form > h.form; a.newer {
		r.counts.Newer++
		return
	}
	if l.Found {
		a.balance = fold(l.State, l.Since) - shift(l.Form)
		if l.Form < h.form {
			r.counts.Migrated++
		}
	}
}

// refuse answers all waiting calls with Closed, because the home's program does not know the state's
// version. The callers repeat the calls.
func (a *account) refuse() {
	all := a.mailbox
	delete(a.t.accounts, a.id)
	a.t.core.Passivated(a.id)
	for _, c := range all {
		a.t.core.Discard(&c.command)
		c.answer(answer{verdict: durable.Closed})
	}
}

// expired reports whether the account has expired. An expired account must be loaded again before
// its next turn.
func (a *account) expired() bool {
	return a.expires != 0 && a.t.home.clock.now().UnixMilli() >= a.expires
}

func (a *account) enqueue(c *call) {
	a.mailbox = append(a.mailbox, c)
	a.next()
}

func (a *account) alive() bool {
	return a.t.core.State() == durable.Open && a.t.accounts[a.id] == a
}

func (a *account) next() {
	if !a.loaded || a.busy || !a.alive() {
		return
	}
	if a.newer {
		a.refuse()
		return
	}
	r := a.t.home.r
	if len(a.mailbox) == 0 {
		a.idled++
		now := a.idled
		a.t.home.later(r.w.between(0, r.plan.idle), func() {
			if a.idled == now && !a.busy && len(a.mailbox) == 0 && a.alive() {
				delete(a.t.accounts, a.id)
				a.t.core.Passivated(a.id)
				if r.w.chance(r.plan.checkpoints) {
					a.t.core.Checkpoint(a.t.home.clock.now())
				}
				a.t.step()
			}
		})
		return
	}
	a.idled++
	c := a.mailbox[0]
	a.mailbox = a.mailbox[1:]
	a.busy = true
	a.t.home.later(r.w.between(0, 2*time.Millisecond), func() {
		if !a.alive() {
			return
		}
		if a.expired() {
			r.counts.Expired++
			a.mailbox = append([]*call{c}, a.mailbox...)
			a.load()
			a.end()
			return
		}
		a.turn(c)
	})
}

func (a *account) turn(c *call) {
	a.began = a.t.home.clock.now()
	switch c.method {
	case end:
		a.commit(c, 0, nil)
	case fire:
		a.fire()
	case get:
		a.observe(c, false)
	case fail:
		a.observe(c, true)
	case transfer:
		a.transfer(c)
	case send:
		a.send(c)
	default:
		a.commit(c, c.amount, nil)
	}
}

func (a *account) observe(c *call, failed bool) {
	r := a.t.home.r
	leased := r.w.now < a.t.leased && !r.plan.singletons // a late home may claim an epoch above this home's
	if leased {
		r.counts.Leased++
	}
	ticket := a.t.core.Observe(a.t.home.clock.now(), a.id, leased)
	res := result{balance: a.balance, version: a.version, failed: failed, fresh: a.fresh, at: a.began, real: r.w.clock()}
	a.t.wait(ticket, func() { c.answer(answer{durable.Run, a.t.leaves(a.id, res)}) })
	a.t.core.Discard(&c.command)
	a.end()
}

// commit ends a turn that adds change to the balance. Before commit, a.balance lacks this change.
func (a *account) commit(c *call, change int64, tells []durable.Tell) {
	t, r := a.t, a.t.home.r
	r.judge.began(t, c.command, turn{at: a.began, base: a.balance, change: change, fresh: a.fresh})
	res := result{balance: a.balance + change, version: a.version + 1, ended: c.method == end}
	if res.ended {
		res.balance = 0
	}
	padding := r.padding()
	if r.plan.journal {
		padding /= 2
	}
	tells = append(tells, a.published()...)
	turn := durable.Turn{
		Entity: a.id, State: a.state(res.balance, padding), Ended: res.ended, Command: &c.command, Answer: res.encode(), Tells: tells,
		Events: a.events(res.balance-a.balance, padding), Expires: t.home.expiry(), Form: t.home.form, Index: t.home.keys(res.balance),
	}
	a.remind(&turn)
	ticket, err := t.core.Commit(t.home.clock.now(), &turn)
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		r.counts.TooLarge++
		t.core.Discard(&c.command)
		seen := result{balance: a.balance, version: a.version, failed: true, fresh: a.fresh}
		t.wait(t.core.Seen(a.id), func() { c.answer(answer{durable.Run, t.leaves(a.id, seen)}) })
		a.load()
	case err != nil:
		r.w.fail("%v", err)
	default:
		a.balance, a.version, a.fresh, a.expires = res.balance, res.version, res.ended, 0
		if !res.ended {
			a.expires = turn.Expires
		}
		t.wait(ticket, func() {
			seen := t.leavesCommit(a.id, c.command, res)
			if _, there := r.judge.applied[commandKeyOf(c.command)]; !there && c.command.Source.Incarnation != 0 && !r.judge.promised(t.shard, a.id, commandKeyOf(c.command)) {
				r.w.fail("invariant 4: command %s is answered, but the log lacks its commit", commandKeyOf(c.command))
			}
			c.answer(answer{durable.Run, seen})
		})
		if r.w.chance(r.plan.panics) { // the turn panics, so the activation is dropped
			r.counts.Panics++
			a.load()
		}
	}
	a.end()
}

func (a *account) state(balance int64, padding int) []byte {
	return append(binary.AppendVarint(nil, balance+shift(a.t.home.form)), make([]byte, padding)...)
}

func (a *account) end() {
	a.busy = false
	a.next()
	a.t.step()
}

// target returns the receiving account, which depends on the balance: a repeated turn may choose
// another account.
func (a *account) target(c *call) string {
	if a.balance%3 == 0 {
		return c.other
	}
	return a.t.home.r.accountAfter(c.other, a.id)
}

func (a *account) transfer(c *call) {
	t, r := a.t, a.t.home.r
	if len(c.command.Path) > 0 {
		a.commit(c, c.amount, nil)
		return
	}
	var calls durable.Calls
	n := &call{entity: a.target(c), method: add, amount: c.amount + a.balance%2}
	n.command = durable.Command{
		Source: c.command.Source, Number: c.command.Number, Floor: c.command.Floor,
		Path: calls.Path(c.command.Path, n.entity, "add"),
	}
	n.command.Hash = n.hash()
	seen := result{balance: a.balance, version: a.version, fresh: a.fresh}
	over := false
	finish := func(f func()) {
		if !over && a.alive() {
			over = true
			f()
		}
	}
	giveUp := func() { // the caller repeats the call
		t.core.Discard(&c.command)
		a.end()
	}
	var try func()
	try = func() {
		if over || !a.alive() {
			return
		}
		t.leaves(a.id, seen)
		r.counts.Nested++
		r.send(t.home, n, func(got answer) {
			switch {
			case ran(got.verdict):
				finish(func() { a.commit(c, -n.amount, nil) })
			case got.verdict == durable.Mismatch:
				r.counts.Mismatches++
				finish(func() { a.observe(c, true) })
			case got.verdict == durable.BelowFloor:
				finish(giveUp)
			}
		})
		t.home.later(r.w.between(200*time.Millisecond, 600*time.Millisecond), try)
	}
	t.wait(t.core.Seen(a.id), try)
	t.home.later(3*time.Second, func() { finish(giveUp) })
}

func (a *account) send(c *call) {
	to := a.target(c)
	a.commit(c, -c.amount, []durable.Tell{{
		Target: durable.Target{Log: logName, Shard: uint32(a.t.home.r.shardOf(to))}, Entity: to, Body: body(to, c.amount),
	}})
}

// events returns one or two events whose sum is change.
func (a *account) events(change int64, padding int) [][]byte {
	if !a.t.home.r.plan.journal {
		return nil
	}
	if change%2 != 0 {
		return [][]byte{added(change, padding)}
	}
	return [][]byte{added(change/2, padding), added(change/2, 0)}
}

type method uint8

const (
	add      method = iota + 1 // add n to the balance
	get                        // return the balance
	transfer                   // take n, and ask another account to add it first
	send                       // take n, and tell another account to add it
	fail                       // change nothing, and return an error
	end                        // end the account
	fire                       // run a reminder that is due
)

type call struct {
	command durable.Command
	entity  string
	method  method
	amount  int64
	other   string // the account of transfer and send
	answer  func(answer)
}

type answer struct {
	verdict durable.Verdict // Run or Replay: the call has run, and the other fields are valid
	result  result
}

func ran(v durable.Verdict) bool { return v == durable.Run || v == durable.Replay }

type result struct {
	balance int64
	version uint64
	failed  bool // not encoded, because a failed turn has no commit
	ended   bool

	// fresh, at and real are not encoded, because they belong to a turn that changed nothing.
	fresh bool // the turn saw no state of the account
	// at is the time of a turn whose answer may leave only if the turn saw all earlier commits;
	// zero for other turns. Those may make calls even without the shard.
	at   time.Time
	real time.Time // the true time of at
}

func (r result) encode() []byte {
	b := binary.AppendVarint(nil, r.balance)
	b = binary.AppendUvarint(b, r.version)
	if r.ended {
		b = append(b, 1)
	}
	return b
}

func decodeResult(b []byte) (r result) {
	balance, n := binary.Varint(b)
	version, m := binary.Uvarint(b[n:])
	return result{balance: balance, version: version, ended: len(b) > n+m}
}

func (c *call) hash() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d %d %s", c.entity, c.method, c.amount, c.other)
	return h.Sum64()
}

const logName = "account"

func body(entity string, amount int64) []byte {
	return append(binary.AppendVarint(nil, amount), entity...)
}

func readBody(b []byte) (entity string, amount int64) {
	amount, n := binary.Varint(b)
	return string(b[n:]), amount
}

// balanceOf decodes the number at the beginning of a state or event: the balance plus shift, or the
// change.
func balanceOf(state []byte) int64 {
	balance, _ := binary.Varint(state)
	return balance
}

// shift is added to the balance in states of version form. So a program that mistakes the version
// gets a wrong balance.
func shift(form uint32) int64 { return int64(form) << 40 }

func added(change int64, padding int) []byte {
	return append(binary.AppendVarint(nil, change), make([]byte, padding)...)
}

// fold returns balance plus shift after the events.
func fold(state []byte, events [][]byte) int64 {
	balance := balanceOf(state)
	for _, e := range events {
		balance += balanceOf(e)
	}
	return balance
}
