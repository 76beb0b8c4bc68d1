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

// A Client is a [store.Backend] for one process. It is safe for concurrent use.
type Client struct {
	server *Server
	shards Shards
	mu     sync.Mutex
	fault  func(Op) Fault
	cut    bool
}

var (
	_ store.Backend   = (*Client)(nil)
	_ store.Clock     = (*Client)(nil)
	_ store.Publisher = (*Client)(nil)
)

// Shards implements [store.Backend].
func (c *Client) Shards() store.Shards { return &c.shards }

// Fault sets the function that chooses a fault for each operation of this client, in addition to
// the faults set by Server.Fault. nil means no faults.
func (c *Client) Fault(decide func(Op) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = decide
}

// Cut disconnects this client from the server if cut is true, and connects the client again if cut
// is false. The function set by Fault stays as it is.
func (c *Client) Cut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
}

func (c *Client) faults(op Op) [2]Fault {
	var met [2]Fault
	c.mu.Lock()
	if c.fault != nil {
		met[0] = c.fault(op)
	}
	if c.cut {
		met[0].Loss = LoseConnection
	}
	c.mu.Unlock()
	c.server.mu.Lock()
	if c.server.fault != nil {
		met[1] = c.server.fault(op)
	}
	c.server.mu.Unlock()
	return met
}

func (c *Client) do(ctx context.Context, op Op, apply func() error) error {
	return c.carry(ctx, op, func(Fault) error { return apply() })
}

// carry runs apply under the server's lock, with the combined fault of client and server. If ctx
// ends while a write is on its way, the write's outcome is uncertain.
func (c *Client) carry(ctx context.Context, op Op, apply func(Fault) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	lost := store.ErrUnavailable
	if op.Write {
		lost = store.ErrUncertain
	}
	met := c.meets(op)
	if met.Loss == LoseConnection {
		return store.ErrUnavailable
	}
	if !c.wait(ctx, met.Delay) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	answered, err := c.server.serve(op, met, lost, apply)
	if !answered {
		return err
	}
	if !c.wait(ctx, met.Answer) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	return err
}

// meets combines the faults of client and server. Delays are added. The client's Loss applies,
// unless it is LoseNothing; then the server's does. If the server's Loss is LoseConnection, or the
// server has stopped, LoseConnection applies.
func (c *Client) meets(op Op) Fault {
	met := c.faults(op)
	one := met[0]
	one.Delay = max(one.Delay, 0) + max(met[1].Delay, 0)
	one.Answer = max(one.Answer, 0) + max(met[1].Answer, 0)
	one.Late = max(one.Late, 0) + max(met[1].Late, 0)
	one.Busy = one.Busy || met[1].Busy
	one.Follower = one.Follower || met[1].Follower
	if one.Loss == LoseNothing || met[1].Loss == LoseConnection {
		one.Loss = met[1].Loss
	}
	if c.server.isStopped() {
		one.Loss = LoseConnection
	}
	return one
}

// wait waits for d, or returns false if ctx ends first. In a simulation it returns at once.
func (c *Client) wait(ctx context.Context, d time.Duration) bool {
	if c.server.clock != nil {
		return true
	}
	return wait(ctx, d)
}

func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Now implements [store.Clock]; see [Server.SetAhead].
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	const op = "now"
	var now time.Time
	err := c.do(ctx, Op{Name: op}, func() error {
		now = c.server.now().Add(c.server.ahead)
		return nil
	})
	if err != nil {
		return time.Time{}, fail(op, "", err)
	}
	return now, nil
}

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
		return fail(op, key, fmt.Errorf("%w: expected revision is None: read the record first", store.ErrBadKey))
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

func fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Op: op, Key: key, Err: err}
}
