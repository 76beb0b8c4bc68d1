package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// NewAt returns an empty server whose time is clock, that of a simulation. Its
// clients never wait: Fault.Delay and Fault.Answer are the simulation's to spend.
// Nil is package time.
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

// A Client is a [store.Backend] of one process. It is safe for concurrent use.
type Client struct {
	server *Server
	shards Shards
	mu     sync.Mutex
	fault  func(Op) Fault
}

var _ store.Backend = (*Client)(nil)

// Shards implements [store.Backend].
func (c *Client) Shards() store.Shards { return &c.shards }

// Get implements [store.Store].
func (c *Client) Get(ctx context.Context, key string) (store.Record, error) {
	const op = "get"
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, fail(op, key, err)
	}
	var found store.Record
	var ok bool
	err := c.do(ctx, Op{Name: op, Key: key}, func() error {
		found, ok = c.server.records[key]
		return nil
	})
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, fail(op, key, err)
	}
	found.Value = slices.Clone(found.Value)
	return found, nil
}

// Put implements [store.Store].
func (c *Client) Put(ctx context.Context, key string, value []byte, expect store.Revision) (store.Revision, error) {
	const op = "put"
	if err := store.CheckKey(key); err != nil {
		return 0, fail(op, key, err)
	}
	if len(value) > store.MaxValue {
		return 0, fail(op, key, fmt.Errorf("%w: %d bytes: want at most %d", store.ErrTooLarge, len(value), store.MaxValue))
	}
	value = slices.Clone(value)
	var revision store.Revision
	err := c.do(ctx, Op{Name: op, Key: key, Write: true}, func() error {
		s := c.server
		if s.records[key].Revision != expect {
			return store.ErrConflict
		}
		s.revision++
		revision = s.revision
		s.records[key] = store.Record{Key: key, Value: value, Revision: revision}
		return nil
	})
	if err != nil {
		return 0, fail(op, key, err)
	}
	return revision, nil
}

// Delete implements [store.Store].
func (c *Client) Delete(ctx context.Context, key string, expect store.Revision) error {
	const op = "delete"
	if err := store.CheckKey(key); err != nil {
		return fail(op, key, err)
	}
	if expect == store.None {
		return fail(op, key, fmt.Errorf("%w: revision None is that of no record (Get it first)", store.ErrBadKey))
	}
	return fail(op, key, c.do(ctx, Op{Name: op, Key: key, Write: true}, func() error {
		s := c.server
		if s.records[key].Revision != expect {
			return store.ErrConflict
		}
		s.revision++
		delete(s.records, key)
		return nil
	}))
}

// List implements [store.Store].
func (c *Client) List(ctx context.Context, prefix string) ([]store.Record, error) {
	const op = "list"
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, fail(op, prefix, err)
	}
	var found []store.Record
	err := c.do(ctx, Op{Name: op, Key: prefix}, func() error {
		for key, r := range c.server.records {
			if strings.HasPrefix(key, prefix) {
				r.Value = slices.Clone(r.Value)
				found = append(found, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fail(op, prefix, err)
	}
	slices.SortFunc(found, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// fail makes the typed error; nil stays nil.
func fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Op: op, Key: key, Err: err}
}
