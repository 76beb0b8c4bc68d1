package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/store"
)

const (
	opAppend      = "append"
	opRead        = "read"
	opTrim        = "trim"
	opHead        = "head"
	opSetHead     = "set head"
	opGetRecords  = "get records"
	opPutRecords  = "put records"
	opListRecords = "list records"
)

// Shards is the part of a [Client] that keeps the state of entities.
type Shards struct{ client *Client }

var _ store.Shards = (*Shards)(nil)

// Append implements [store.Logs].
func (s *Shards) Append(ctx context.Context, sh store.Shard, expect store.Position, data []byte) (store.Position, error) {
	if err := store.CheckSize(len(data), store.MaxAppend); err != nil {
		return 0, fail(opAppend, sh.String(), err)
	}
	data = slices.Clone(data)
	var position store.Position
	err := s.write(ctx, opAppend, sh, func(met Fault) error {
		copies := s.client.server.copies
		if expect != store.Any && copies.leader.of(sh).last() != expect {
			return store.ErrConflict
		}
		p := copies.leader.position + 1
		copies.write(func(c *shards) {
			c.position = p
			one := c.of(sh)
			one.log = append(one.log, store.Append{Position: p, Data: data})
		})
		if met.Loss != LoseTouch { // with LoseTouch, the caller no longer waits
			position = p
		}
		return nil
	})
	return answer(position, err)
}

// Read implements [store.Logs].
func (s *Shards) Read(ctx context.Context, sh store.Shard, from, to store.Position) ([]store.Append, error) {
	var found []store.Append
	err := s.read(ctx, opRead, sh, func(c *shards) bool {
		found = slices.Clone(c.of(sh).between(from, to))
		return len(found) > 0
	})
	if err == nil && len(found) == 0 {
		err = fail(opRead, sh.String(), fmt.Errorf("%w: the log lacks the append at %d or at %d", store.ErrGone, from, to))
	}
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Data = slices.Clone(found[i].Data)
	}
	return found, nil
}

// Trim implements [store.Logs]. It removes all appends before h.Since, except the last.
func (s *Shards) Trim(ctx context.Context, sh store.Shard, h store.Head) error {
	return s.write(ctx, opTrim, sh, func(Fault) error {
		copies := s.client.server.copies
		below := min(h.Since, copies.leader.of(sh).head.Since)
		copies.write(func(c *shards) { c.of(sh).trim(below) })
		return nil
	})
}

// Head implements [store.Records].
func (s *Shards) Head(ctx context.Context, sh store.Shard) (store.Head, error) {
	var head store.Head
	err := s.read(ctx, opHead, sh, func(c *shards) bool {
		head = c.of(sh).head
		return true
	})
	head.Value = slices.Clone(head.Value)
	return answer(head, err)
}

// SetHead implements [store.Records].
func (s *Shards) SetHead(ctx context.Context, sh store.Shard, h store.Head) (store.Revision, error) {
	if err := store.CheckSize(len(h.Value), store.MaxHead); err != nil {
		return 0, fail(opSetHead, sh.String(), err)
	}
	h.Value = slices.Clone(h.Value)
	var revision store.Revision
	err := s.write(ctx, opSetHead, sh, func(met Fault) error {
		copies := s.client.server.copies
		if copies.leader.of(sh).head.Revision != h.Revision {
			return store.ErrConflict
		}
		next := h
		next.Revision = copies.leader.revision + 1
		copies.write(func(c *shards) {
			c.revision = next.Revision
			c.of(sh).head = next
		})
		if met.Loss != LoseTouch {
			revision = next.Revision
		}
		return nil
	})
	return answer(revision, err)
}

// Get implements [store.Records].
func (s *Shards) Get(ctx context.Context, sh store.Shard, ids []string, atLeast store.Revision) (store.Head, []store.Record, error) {
	if err := store.CheckIDs(ids); err != nil {
		return store.Head{}, nil, fail(opGetRecords, sh.String(), err)
	}
	var head store.Head
	found := make([]store.Record, len(ids))
	fresh := false
	err := s.read(ctx, opGetRecords, sh, func(c *shards) bool {
		if fresh = c.revision >= atLeast; !fresh {
			return false
		}
		head = c.of(sh).head
		for i, id := range ids {
			r, ok := c.of(sh).records[id]
			if !ok {
				r = store.Record{Key: id}
			}
			found[i] = r
		}
		return true
	})
	if err == nil && !fresh {
		err = fail(opGetRecords, sh.String(), fmt.Errorf("%w: no replica has revision %d (has a server lost its last writes?)", store.ErrUnavailable, atLeast))
	}
	if err != nil {
		return store.Head{}, nil, err
	}
	head.Value = slices.Clone(head.Value)
	for i := range found {
		found[i].Value = slices.Clone(found[i].Value)
	}
	return head, found, nil
}

// Put implements [store.Records].
func (s *Shards) Put(ctx context.Context, sh store.Shard, head store.Revision, changes []store.Change) (store.Revision, error) {
	if err := store.CheckChanges(head, changes, store.MaxValue); err != nil {
		return 0, fail(opPutRecords, sh.String(), err)
	}
	own := make([]store.Change, len(changes))
	for i, change := range changes {
		own[i] = store.Change{ID: change.ID, Value: slices.Clone(change.Value)}
	}
	revision := head
	err := s.write(ctx, opPutRecords, sh, func(met Fault) error {
		copies := s.client.server.copies
		if copies.leader.of(sh).head.Revision != head {
			return store.ErrConflict
		}
		changes := own
		if met.Loss == LoseHalf {
			changes = own[:len(own)/2]
		}
		for _, change := range changes {
			copies.write(changeAt(sh, change, copies.leader.revision+1))
		}
		if met.Loss != LoseTouch && len(changes) > 0 {
			revision = copies.leader.revision
		}
		return nil
	})
	return answer(revision, err)
}

func changeAt(sh store.Shard, change store.Change, revision store.Revision) write {
	return func(c *shards) {
		c.revision = revision
		if len(change.Value) == 0 {
			delete(c.of(sh).records, change.ID)
			return
		}
		c.of(sh).records[change.ID] = store.Record{Key: change.ID, Value: change.Value, Revision: revision}
	}
}

// List implements [store.Records].
func (s *Shards) List(ctx context.Context, sh store.Shard, after store.Revision) ([]store.Record, error) {
	var found []store.Record
	err := s.read(ctx, opListRecords, sh, func(c *shards) bool {
		for _, r := range c.of(sh).records {
			if r.Revision > after {
				found = append(found, r)
			}
		}
		return true
	})
	slices.SortFunc(found, func(a, b store.Record) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
	size := 0
	for i := range found {
		if size >= store.ListBytes {
			found = found[:i]
			break
		}
		size += len(found[i].Key) + len(found[i].Value)
		found[i].Value = slices.Clone(found[i].Value)
	}
	return answer(found, err)
}

func (s *Shards) write(ctx context.Context, op string, sh store.Shard, apply func(Fault) error) error {
	if err := sh.Check(); err != nil {
		return fail(op, sh.String(), err)
	}
	return fail(op, sh.String(), s.client.carry(ctx, Op{Name: op, Key: sh.String(), Write: true}, func(met Fault) error {
		if met.Busy {
			return store.ErrBusy
		}
		return apply(met)
	}))
}

// read calls the function look with the leader's state or, for Fault.Follower, with the lagging
// replica's. If look returns false because that replica is too old, read calls look with the
// leader's state.
func (s *Shards) read(ctx context.Context, op string, sh store.Shard, look func(*shards) bool) error {
	if err := sh.Check(); err != nil {
		return fail(op, sh.String(), err)
	}
	return fail(op, sh.String(), s.client.carry(ctx, Op{Name: op, Key: sh.String()}, func(met Fault) error {
		copies := s.client.server.copies
		if !met.Follower || !look(copies.follower) {
			look(copies.leader)
		}
		return nil
	}))
}

func answer[T any](v T, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return v, nil
}
