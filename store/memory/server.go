package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Server holds the data of a store. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	clock    func() time.Time // nil: package time
	revision store.Revision
	records  map[string]store.Record
	leases   map[string]*lease
	copies   *copies             // of the shards
	members  map[string]*members // by cluster
	fault    func(Op) Fault
	stopped  bool
	ahead    time.Duration // how far Client.Now is ahead of the process's time
	late     []lateWrite   // sorted by when they are due
	stream   stream
}

// New returns an empty server.
func New() *Server { return NewAt(nil) }

// NewAt returns an empty server with the clock of a simulation. Its clients never wait, so the
// simulation itself must let the times Fault.Delay and Fault.Answer pass. A nil clock means package
// time.
func NewAt(clock func() time.Time) *Server {
	return &Server{
		clock: clock, records: make(map[string]store.Record), leases: make(map[string]*lease), copies: newCopies(), members: make(map[string]*members),
		stream: stream{subjects: []string{">"}, window: defaultWindow, last: make(map[string]time.Time)},
	}
}

// Client returns a connection to the server, without faults.
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

// SetAhead sets how far the time of [Client.Now] is ahead of this process's time; it is behind if d
// is below 0. Default 0. Leases and delays do not use the time of [Client.Now].
func (s *Server) SetAhead(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = d
}

// Lag keeps one of the server's two replicas behind by the given number of writes to shards, at
// most MaxUnsynced. Reads with [Fault.Follower] are answered by the lagging replica.
func (s *Server) Lag(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	s.copies.holdBack(writes)
}

// Deliver applies all delayed writes now.
func (s *Server) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.late {
		_ = w.apply() // nobody waits for the answer
	}
	s.late = nil
}

// Stop stops the server: no request reaches it until Start, and delayed writes are lost.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	s.stopped, s.late = true, nil
}

// MaxUnsynced bounds how many of the last writes Start can lose.
const MaxUnsynced = 1024

// Start starts the server again from its disk, which lacks the last writes to shards. The parameter
// lost is their number, at most MaxUnsynced. 0 is like the crash of a process, and a higher number
// like the crash of a machine. The revisions and positions of lost writes are assigned again. Small
// records and leases are never lost.
func (s *Server) Start(lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		return
	}
	s.stopped = false
	s.copies.restart(lost)
}

// Fault sets the function that chooses a fault for each operation of every client; nil means no
// faults. The function decide is called by many goroutines, but by one at a time. It must not use
// the server.
func (s *Server) Fault(decide func(Op) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = decide
}

type lateWrite struct {
	due   time.Time
	apply func() error
}

// deliver applies late writes that are due; s.mu is held.
func (s *Server) deliver() {
	now := s.now()
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		w := s.late[0]
		s.late = s.late[1:]
		_ = w.apply() // nobody waits for the answer
	}
}

// delay keeps a write until it is due; s.mu is held.
func (s *Server) delay(after time.Duration, apply func() error) {
	w := lateWrite{s.now().Add(max(after, 0)), apply}
	at := len(s.late)
	for at > 0 && s.late[at-1].due.After(w.due) {
		at--
	}
	s.late = slices.Insert(s.late, at, w)
}

// serve runs an operation with the fault in met. answered reports whether apply has run. If the
// caller gets no answer, err is the parameter lost.
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
