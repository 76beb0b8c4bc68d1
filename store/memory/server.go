package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/store"
)

// A Server holds records and leases. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	revision store.Revision
	records  map[string]store.Record
	leases   map[string]*lease
	fault    func(Op) Fault
}

// New returns an empty server.
func New() *Server {
	return &Server{records: make(map[string]store.Record), leases: make(map[string]*lease)}
}

// Client opens a way to the server, without faults.
func (s *Server) Client() *Client { return &Client{server: s} }

// A Client is a [store.Store] and a [store.Lease] of one process. It is safe for
// concurrent use.
type Client struct {
	server *Server
	mu     sync.Mutex
	fault  func(Op) Fault
}

var (
	_ store.Store = (*Client)(nil)
	_ store.Lease = (*Client)(nil)
)

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
