package durable

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/store"
)

// An Op is an operation of a store.
type Op uint8

// The operations of [store.Shards] that a shard requests.
const (
	OpHead    Op = iota + 1 // Head
	OpSetHead               // SetHead(Head)
	OpAppend                // Append(Expect, Data)
	OpRead                  // Read(From, To)
	OpGet                   // Get(IDs, AtLeast)
	OpPut                   // Put(Head.Revision, Changes)
	OpTrim                  // Trim(Head); its answer is not waited for
	OpList                  // List(After); costs the store much if many shards send it at once
)

// A Request is an operation that the driver must send to the store at once. Its contents must not
// be changed.
type Request struct {
	ID       uint64 // repeated in the Response
	Op       Op
	Head     store.Head // SetHead, Trim; Put uses only its Revision
	Expect   store.Position
	Data     []byte
	Commits  int // of Append: the number of entries in Data; 0 means a claim
	From, To store.Position
	IDs      []string
	AtLeast  store.Revision
	Changes  []store.Change
	After    store.Revision
}

// An Outcome is the outcome of a request.
type Outcome uint8

// The outcomes, by the errors of package store.
const (
	OK Outcome = iota
	// NotApplied is ErrBusy; ErrUnavailable, except of a Put; or any error of a read that has no
	// outcome of its own below. The same request is sent again.
	NotApplied
	// Uncertain is any other error of a write, such as ErrUncertain. The same request is sent
	// again.
	Uncertain
	Conflict // ErrConflict
	Gone     // ErrGone
	TooLarge // ErrTooLarge
)

// OutcomeOf returns the outcome of a request to which the store returned err. After an error that
// package store does not define, the outcome of a write is uncertain.
func OutcomeOf(op Op, err error) Outcome {
	read := op == OpHead || op == OpRead || op == OpGet || op == OpList
	switch {
	case err == nil:
		return OK
	case errors.Is(err, store.ErrConflict):
		return Conflict
	case errors.Is(err, store.ErrGone):
		return Gone
	case errors.Is(err, store.ErrTooLarge):
		return TooLarge
	case errors.Is(err, store.ErrUncertain) && !read:
		return Uncertain
	case read, errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrUnavailable) && op != OpPut:
		return NotApplied
	}
	return Uncertain
}

// A Response is the store's answer to a Request.
type Response struct {
	ID       uint64
	Outcome  Outcome
	Err      error          // the cause of an outcome that is not OK; may be nil
	Position store.Position // Append
	Revision store.Revision // SetHead, Put
	Head     store.Head     // Head, Get
	Appends  []store.Append // Read
	Records  []store.Record // Get, in the order of the IDs; List
}

type desk struct {
	now   time.Time
	pause time.Duration
	last  uint64
	out   []Request
}

func (d *desk) send(r Request) uint64 {
	d.last++
	r.ID = d.last
	d.out = append(d.out, r)
	return r.ID
}

// line sends one request at a time, and repeats it while its outcome is NotApplied or Uncertain.
type line struct {
	request Request
	id      uint64    // of the request under way; 0 means none
	at      time.Time // when to ask again; zero means nothing is to be asked
	tries   int
}

func (l *line) ask(d *desk, r Request) {
	*l = line{request: r, id: d.send(r)}
}

// again repeats the request after a pause, which doubles each time until it is 32 times desk.pause.
func (l *line) again(d *desk) {
	l.id, l.at = 0, d.now.Add(d.pause<<min(l.tries, 5))
	l.tries++
}

// later schedules another request, after the same pause as again.
func (l *line) later(d *desk, r Request) {
	l.request = r
	l.again(d)
}

func (l *line) tick(d *desk) {
	if !l.at.IsZero() && !d.now.Before(l.at) {
		l.at = time.Time{}
		l.id = d.send(l.request)
	}
}

func (l *line) idle() bool { return l.id == 0 && l.at.IsZero() }

func (l *line) close() { *l = line{} }

func (l *line) settled(d *desk, r Response) bool {
	if r.Outcome == NotApplied || r.Outcome == Uncertain {
		l.again(d)
		return false
	}
	l.id = 0
	return true
}

func refused(what string, r Response) error {
	if r.Err != nil {
		return fmt.Errorf("%s: %w", what, r.Err)
	}
	return fmt.Errorf("%s: %w", what, store.ErrTooLarge)
}
