package feed

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// partBits is the number of low bits of a command number that distinguish the parts of a message.
const partBits = 10

// MaxParts bounds the tells of one message.
const MaxParts = 1 << partBits

// Number returns the command number of a tell, from the position of its message in the stream (from
// 1 on) and its index in that message (from 0 on).
func Number(position uint64, part int) uint64 { return position<<partBits | uint64(part) }

// PositionOf returns the position of a tell's message, and part, the tell's index in it, given the
// tell's command number.
func PositionOf(number uint64) (position uint64, part int) {
	return number >> partBits, int(number & (MaxParts - 1))
}

// Limits bound a window. A field that is zero means its default.
type Limits struct {
	// Unfinished bounds the tells that are not finished; the last message may exceed it. Default
	// 1,024.
	Unfinished int
	// Bytes bounds the arguments of the tells that are not finished. The messages added last may
	// exceed it. Default 16 MiB.
	Bytes int
	// Lag is the number of finished tells after which an earlier unfinished one is set aside.
	// Default 4,096.
	Lag int
	// Tries is how many attempts of a tell must have failed at its receiver, over at least TryFor,
	// before the tell is given up. Defaults 10 and 5 min.
	Tries  int
	TryFor time.Duration
	// Pause is the pause after the first attempt that failed. It doubles with each further one, up
	// to 64 times Pause. Default 1 s. Attempts that the receiver did not answer have pauses a tenth
	// as long, counted separately.
	Pause time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Unfinished = cmp.Or(l.Unfinished, 1024)
	l.Bytes = cmp.Or(l.Bytes, 16<<20)
	l.Lag = cmp.Or(l.Lag, 4096)
	l.Tries = cmp.Or(l.Tries, 10)
	l.TryFor = cmp.Or(l.TryFor, 5*time.Minute)
	l.Pause = cmp.Or(l.Pause, time.Second)
	return l
}

// A Result is the outcome of an attempt to send a tell.
type Result uint8

// The results of [Window.Ended].
const (
	// Committed: the receiver has committed the number, now or before.
	Committed Result = iota + 1
	// Finished: another reader has finished the number. It was applied or is a dead letter.
	Finished
	// Failed: the receiver could not apply the tell, and has changed nothing.
	Failed
	// Mismatch: the receiver has committed something else under the number.
	Mismatch
	// Unanswered: the receiver could not be reached or has no room. It may have applied the tell.
	Unanswered
)

type status uint8

const (
	queued status = iota // an earlier tell to its entity is unfinished
	ready                // in Effects.Send, which was not taken yet
	sent
	resting // until entry.again
	lost    // its number is committed as dead, and its letter is not stored yet
	done
)

// entry is a tell that is not finished, or a finished tell behind an unfinished one.
type entry struct {
	tell   durable.Tell
	row    *row
	next   *entry // in its row
	status status
	dying  bool // its number is to be committed as dead
	tries  int  // attempts that the receiver failed
	silent int  // attempts without an answer since the last answer
	first  time.Time
	again  time.Time
	why    string // of the last attempt that failed
}

// row has the unfinished tells to one entity.
type row struct{ first, last *entry }

type rowKey struct{ log, entity string }

// A Dead is a tell that was given up, or a message that became no tells.
type Dead struct {
	Number uint64
	Target durable.Target // zero if the message became no tells
	Entity string
	Body   []byte
	Why    string
}

// Effects are what the driver has to do. It reports the end of each Send and Dead to the window.
type Effects struct {
	Send []durable.Tell // ended by Window.Ended
	Dead []Dead         // to be stored, ended by Window.Buried
	// Known are dead tells without a letter: the receiver had applied their numbers with other
	// arguments. They are only to be logged.
	Known []Dead
}

// A Window has the unfinished tells of one partition. It is not safe for concurrent use.
//
// Invariants:
//  1. Numbers ascend in list and in stuck; all numbers in stuck are below those in list.
//  2. unfinished counts the tells in list and stuck without the finished ones. bytes is the size of
//     their bodies.
//  3. In each row, only the first tell is ready, sent, resting or lost.
type Window struct {
	limits     Limits
	dead       []byte   // the body with which a number is committed as dead
	list       []*entry // from the first unfinished tell on that is not in stuck
	stuck      []*entry // set aside
	rows       map[rowKey]*row
	unfinished int
	bytes      int
	ended      int // done in list
	resting    []*entry
	read       uint64 // number after the last message
	out        Effects
}

// New returns a window for messages from position on. dead is the body of a tell that commits a
// number without an effect.
func New(position uint64, dead []byte, l Limits) *Window {
	return &Window{limits: l.withDefaults(), dead: dead, rows: map[rowKey]*row{}, read: Number(position, 0)}
}

// Room returns how many tells may be added. If the result is above 0, the next message may exceed
// it.
func (w *Window) Room() int {
	if len(w.list) > w.limits.Lag && len(w.stuck) >= durable.MaxStuck || w.bytes >= w.limits.Bytes {
		return 0
	}
	return max(w.limits.Unfinished-w.unfinished, 0)
}

// Add adds the tells of the message at position, at most [MaxParts].
func (w *Window) Add(position uint64, tells []durable.Tell) {
	all := make([]entry, len(tells))
	for i, t := range tells {
		e := &all[i]
		e.tell = t
		e.tell.Number = Number(position, i)
		w.list = append(w.list, e)
		w.unfinished++
		w.bytes += len(t.Body)
		key := rowKey{t.Target.Log, t.Entity}
		r := w.rows[key]
		if r == nil {
			r = &row{first: e}
			w.rows[key] = r
			w.send(e)
		} else {
			r.last.next = e
		}
		r.last, e.row = e, r
	}
	w.read = Number(position+1, 0)
}

// Fail adds a message that becomes no tells; why is the reason. The message is a dead letter at
// once.
func (w *Window) Fail(position uint64, why string) {
	e := &entry{tell: durable.Tell{Number: Number(position, 0)}, status: lost, why: why}
	w.list = append(w.list, e)
	w.unfinished++
	w.bury(e)
	w.read = Number(position+1, 0)
}

func (w *Window) send(e *entry) {
	e.status = ready
	w.out.Send = append(w.out.Send, e.tell)
}

func (w *Window) bury(e *entry) {
	e.status = lost
	w.out.Dead = append(w.out.Dead, e.letter())
}

func (e *entry) letter() Dead {
	return Dead{e.tell.Number, e.tell.Target, e.tell.Entity, e.tell.Body, e.why}
}

// Take returns the effects since the last Take.
func (w *Window) Take() Effects {
	out := w.out
	w.out = Effects{}
	floor := w.floor()
	for i := range out.Send {
		t := &out.Send[i]
		e := w.find(t.Number)
		e.status, t.Floor = sent, min(floor, t.Number)
		if e.dying {
			t.Body = w.dead
		}
	}
	return out
}

// Ended records the result r of an attempt to send a tell. why is the error, if any.
func (w *Window) Ended(now time.Time, number uint64, r Result, why string) {
	e := w.find(number)
	if e == nil || e.status != sent {
		return
	}
	switch {
	case r == Finished, r == Committed && !e.dying:
		w.finish(e)
	case r == Committed:
		w.bury(e)
	case r == Mismatch && e.dying:
		w.out.Known = append(w.out.Known, e.letter())
		w.finish(e)
	case r == Mismatch:
		e.dying, e.why = true, why
		w.send(e)
	case r == Failed:
		e.failed(now, &w.limits, why)
		w.rest(e)
	default:
		e.again = now.Add(w.limits.Pause / 10 << min(e.silent, 6))
		e.silent++
		w.rest(e)
	}
}

func (e *entry) failed(now time.Time, l *Limits, why string) {
	e.again = now.Add(l.Pause << min(e.tries, 6))
	e.silent = 0
	e.tries++
	if e.dying {
		return
	}
	e.why = why
	if e.first.IsZero() {
		e.first = now
	}
	if e.tries >= l.Tries && now.Sub(e.first) >= l.TryFor {
		e.dying, e.again, e.tries = true, now, 0
	}
}

func (w *Window) rest(e *entry) {
	e.status = resting
	w.resting = append(w.resting, e)
}

// Buried records that a dead letter is stored.
func (w *Window) Buried(number uint64) {
	if e := w.find(number); e != nil && e.status == lost {
		w.finish(e)
	}
}

// Tick sends tells again whose pause is over.
func (w *Window) Tick(now time.Time) {
	w.resting = slices.DeleteFunc(w.resting, func(e *entry) bool {
		over := !now.Before(e.again)
		if over {
			w.send(e)
		}
		return over
	})
}

func (w *Window) finish(e *entry) {
	e.status = done
	w.unfinished--
	w.bytes -= len(e.tell.Body)
	if r := e.row; r != nil {
		if r.first = e.next; r.first != nil {
			w.send(r.first)
		} else {
			delete(w.rows, rowKey{e.tell.Target.Log, e.tell.Entity})
		}
	}
	e.tell.Body, e.next, e.row = nil, nil, nil
	if i, there := search(w.stuck, e.tell.Number); there {
		w.stuck = slices.Delete(w.stuck, i, i+1)
	} else {
		w.ended++
	}
	w.advance()
}

// advance drops the done tells at the beginning of list. If limits.Lag done tells follow the first
// unfinished tell, advance moves that tell to stuck, so that it no longer keeps the others in list.
func (w *Window) advance() {
	i := 0
	for ; i < len(w.list); i++ {
		switch e := w.list[i]; {
		case e.status == done:
			w.ended--
		case w.ended >= w.limits.Lag && len(w.stuck) < durable.MaxStuck:
			w.stuck = append(w.stuck, e)
		default:
			clear(w.list[:i])
			w.list = w.list[i:]
			return
		}
	}
	w.list = nil
}

func search(list []*entry, number uint64) (int, bool) {
	return slices.BinarySearchFunc(list, number, func(e *entry, n uint64) int { return cmp.Compare(e.tell.Number, n) })
}

func (w *Window) find(number uint64) *entry {
	if i, there := search(w.list, number); there {
		return w.list[i]
	}
	if i, there := search(w.stuck, number); there {
		return w.stuck[i]
	}
	return nil
}

func (w *Window) floor() uint64 {
	switch {
	case len(w.stuck) > 0:
		return w.stuck[0].tell.Number
	case len(w.list) > 0:
		return w.list[0].tell.Number
	}
	return w.read
}

// Position returns the position of the first message that is not finished.
func (w *Window) Position() uint64 {
	at, _ := PositionOf(w.floor())
	return at
}

// Aside returns stuck, the numbers that are set aside, and past: all other numbers below past are
// finished. past is 0 if none is set aside.
func (w *Window) Aside() (past uint64, stuck durable.Numbers) {
	if len(w.stuck) == 0 {
		return 0, ""
	}
	all := make([]uint64, len(w.stuck))
	for i, e := range w.stuck {
		all[i] = e.tell.Number
	}
	past = w.read
	if len(w.list) > 0 {
		past = w.list[0].tell.Number
	}
	return past, durable.NumbersOf(all)
}

// Unfinished returns how many tells are not finished.
func (w *Window) Unfinished() int { return w.unfinished }

// Few reports whether the number of unfinished tells is at most Limits.Unfinished divided by part.
func (w *Window) Few(part int) bool { return w.unfinished <= w.limits.Unfinished/part }

// Idle reports whether everything that was read is finished.
func (w *Window) Idle() bool { return w.unfinished == 0 }

// Failing returns the window's tells that have failed at their receivers, in order of their
// numbers.
func (w *Window) Failing() (all []Dead) {
	for _, list := range [][]*entry{w.stuck, w.list} {
		for _, e := range list {
			if e.status != done && (e.tries > 0 || e.dying) {
				all = append(all, e.letter())
			}
		}
	}
	return all
}

// Check returns the first broken invariant, or nil.
func (w *Window) Check() error {
	last, unfinished, ended, bytes := uint64(0), 0, 0, 0
	for i, list := range [][]*entry{w.stuck, w.list} {
		for _, e := range list {
			if e.tell.Number <= last {
				return fmt.Errorf("invariant 1 of a window: number %d follows number %d", e.tell.Number, last)
			}
			last = e.tell.Number
			bytes += len(e.tell.Body)
			if e.status != done {
				unfinished++
			} else if i == 1 {
				ended++
			}
			if active := e.status >= ready && e.status <= lost; e.row != nil && active != (e.row.first == e) {
				return fmt.Errorf("invariant 3 of a window: number %d has status %d, and is first of its row: %t", e.tell.Number, e.status, e.row.first == e)
			}
		}
	}
	if unfinished != w.unfinished || ended != w.ended || bytes != w.bytes {
		return fmt.Errorf("invariant 2 of a window: unfinished, ended and bytes are %d, %d and %d, but the tells have %d, %d and %d", w.unfinished, w.ended, w.bytes, unfinished, ended, bytes)
	}
	return nil
}
