package durable

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// caller is a process that calls accounts. It repeats each command until the command is answered or
// the patience of that call is over.
type caller struct {
	r           *run
	incarnation uint64
	number      uint64
	open        map[uint64]bool
}

// An Operation is one call and its outcome. All Operations of a run together are the run's history,
// which checkHistory checks.
type Operation struct {
	Caller   int
	Account  string
	Change   int64 // the requested change; if Nested, the actual change may differ
	Nested   bool
	Read     bool
	Call     time.Duration
	Return   time.Duration
	Answered bool // if false, the call may have run, or may run later
	Failed   bool // the call changed nothing
	Balance  int64
	Version  uint64
}

func newCaller(r *run) *caller {
	c := &caller{r: r, incarnation: r.w.random.Uint64() | 1, open: map[uint64]bool{}}
	r.callers = append(r.callers, c)
	return c
}

func (c *caller) floor() uint64 {
	for n := uint64(1); n <= c.number; n++ {
		if c.open[n] {
			return n
		}
	}
	return c.number + 1
}

// finished sets in command which commands of c are finished. Half of the callers declare all open
// commands except the latest as stuck.
func (c *caller) finished(command *durable.Command) {
	command.Floor, command.Past, command.Stuck = c.floor(), 0, ""
	open := slices.Sorted(maps.Keys(c.open))
	if n := len(open) - 1; c.incarnation&8 != 0 && n > 0 && n <= durable.MaxStuck {
		command.Past, command.Stuck = open[n], durable.NumbersOf(open[:n])
	}
}

func (c *caller) act(index int) {
	r := c.r
	if r.calm {
		return
	}
	next := func(Operation) {
		r.w.after(r.w.between(0, r.plan.think), func() { c.act(index) })
	}
	in := call{entity: r.anyAccount(), amount: 1 + r.w.random.Int64N(1<<20)}
	n := r.w.random.IntN(100)
	if c.incarnation&4 != 0 && r.w.chance(0.9) {
		n = 50 // this caller mostly reads
	}
	if r.plan.closed {
		n %= 65
	}
	switch {
	case n < 45:
		in.method = add
	case n < 65:
		in.method, in.amount = get, 0
	case n < 80:
		in.method, in.other = transfer, r.accountAfter(r.anyAccount(), in.entity)
	case n < 96:
		in.method, in.other = send, r.accountAfter(r.anyAccount(), in.entity)
	case n < 98:
		in.method, in.amount = end, 0
	default:
		in.method, in.amount = fail, 0
	}
	c.call(index, in, r.between(2*time.Second, 20*time.Second), next)
}

func (c *caller) call(index int, in call, patience time.Duration, done func(Operation)) {
	r := c.r
	c.number++
	number := c.number
	c.open[number] = true
	in.command = durable.Command{Source: durable.Source{Incarnation: c.incarnation}, Number: number}
	in.command.Hash = in.hash()
	if r.plan.keys && number%3 == 0 { // entities keep the command's key in their records too
		in.command.Key = fmt.Sprintf("%x-%d", c.incarnation, number)
	}
	op := Operation{Caller: index, Account: in.entity, Change: in.amount, Call: r.w.now, Read: in.method == get || in.method == fail, Nested: in.method == transfer}
	if in.method == send {
		op.Change = -in.amount
	}
	over := false
	finish := func() {
		over = true
		delete(c.open, number)
		op.Return = r.w.now
		r.history = append(r.history, op)
		done(op)
	}
	in.answer = nil
	var try func()
	try = func() {
		if over {
			return
		}
		n := in
		c.finished(&n.command)
		r.send(nil, &n, func(a answer) {
			if over {
				return
			}
			switch {
			case ran(a.verdict):
				op.Answered, op.Balance, op.Version, op.Failed = true, a.result.balance, a.result.version, a.result.failed
				r.counts.Answered++
				finish()
			case a.verdict == durable.BelowFloor, a.verdict == durable.Mismatch:
				r.w.fail("command %d of caller %d: got verdict %d, but the caller has not finished the command", number, index, a.verdict)
			}
		})
		r.w.after(r.w.between(100*time.Millisecond, 500*time.Millisecond), try)
	}
	try()
	r.w.after(patience, func() {
		if !over {
			r.counts.Unknown++
			finish()
		}
	})
}
