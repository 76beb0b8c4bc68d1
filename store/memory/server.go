package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Server holds all that a store keeps. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	clock    func() time.Time // nil: package time
	revision store.Revision
	records  map[string]store.Record
	leases   map[string]*lease
	copies   *copies // of the shards
	fault    func(Op) Fault
	stopped  bool
	late     []lateWrite // sorted by when they are due
}

// New returns an empty server.
func New() *Server { return NewAt(nil) }

// NewAt returns an empty server with the clock of a simulation. Its clients never wait:
// Fault.Delay and Fault.Answer are the simulation's to spend. Nil is package time.
func NewAt(clock func() time.Time) *Server {
	return &Server{clock: clock, records: make(map[string]store.Record), leases: make(map[string]*lease), copies: newCopies()}
}

// Client opens a way to the server, without faults.
func (s *Server) Client() *Client {
	c := &Client{server: s}
	c.shards.client = c
	return c
}

func (s *Server) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// Lag holds one of the server's two replicas so many writes to shards behind, at
// most MaxUnsynced. Reads come to it by [Fault.Follower].
func (s *Server) Lag(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	s.copies.holdBack(writes)
}

// Deliver has all writes arrive that are still on their way.
func (s *Server) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.late {
		_ = w.apply() // nobody waits for the answer
	}
	s.late = nil
}

// Stop ends the server: nothing reaches it until Start, and writes that were still
// on their way are lost.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	s.stopped, s.late = true, nil
}

// MaxUnsynced bounds how many of the last writes Start can lose.
const MaxUnsynced = 1024

// Start starts the server again from its disk. Of the last writes to shards it has
// lost so many, MaxUnsynced at most: 0 as after the end of the process, more as
// after that of the machine. Revisions and positions of lost writes are given
// again. Small records and leases are all there.
func (s *Server) Start(lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		return
	}
	s.stopped = false
	s.copies.restart(lost)
}

// Fault lets decide meet every operation of every client; nil ends it. Decide is
// called by many goroutines, one after another, and must not use the server.
func (s *Server) Fault(decide func(Op) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = decide
}

// A lateWrite is one that is still on its way although its caller has given up.
type lateWrite struct {
	due   time.Time
	apply func() error
}

// deliver does the writes that have arrived meanwhile; s.mu is held.
func (s *Server) deliver() {
	now := s.now()
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		w := s.late[0]
		s.late = s.late[1:]
		_ = w.apply() // nobody waits for the answer
	}
}

// delay keeps a write for later; s.mu is held.
func (s *Server) delay(after time.Duration, apply func() error) {
	w := lateWrite{s.now().Add(max(after, 0)), apply}
	at := len(s.late)
	for at > 0 && s.late[at-1].due.After(w.due) {
		at--
	}
	s.late = slices.Insert(s.late, at, w)
}

// serve runs an operation at the server, and reports whether its answer is delivered.
func (s *Server) serve(op Op, met Fault, lost error, apply func(Fault) error) (answered bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	if s.stopped {
		return false, lost
	}
	switch met.Loss {
	case LoseRequest:
		return false, lost
	case LoseTouch:
		if op.Write {
			s.delay(met.Late, func() error { return apply(met) })
		}
		return false, lost
	case LoseHalf:
		if op.Name != opPutRecords {
			return false, lost
		}
	}
	err = apply(met)
	if met.Loss == LoseAnswer || met.Loss == LoseHalf {
		err = lost
	}
	return true, err
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}
