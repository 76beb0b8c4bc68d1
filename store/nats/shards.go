package natsstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

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

type shards struct {
	*streams
	trims trims
}

var _ store.Shards = (*shards)(nil)

// CheckRights checks in one round trip whether the connection's user has the rights of a member
// that hosts these durable types. It changes nothing, because its messages name subjects and
// streams that do not exist. If the server refuses a right, CheckRights fails with ErrUnavailable
// and names that right. If the server does not answer, CheckRights returns nil.
func (s *shards) CheckRights(ctx context.Context, types ...string) error {
	return fail("check rights", strings.Join(types, ","), rightsCheck{s.streams}.run(ctx, types))
}

// Outages returns how often the connection was lost and came back. In an outage the store may have
// lost acknowledged writes, if its server crashed before they were on disk.
func (s *shards) Outages() uint64 { return s.outages.Load() }

// Append implements [store.Logs].
func (s *shards) Append(ctx context.Context, sh store.Shard, expect store.Position, data []byte) (store.Position, error) {
	seq, err := s.append(ctx, sh, expect, data)
	return store.Position(seq), fail(opAppend, sh.String(), err)
}

func (s *shards) append(ctx context.Context, sh store.Shard, expect store.Position, data []byte) (uint64, error) {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return 0, err
	}
	if err := store.CheckSize(len(data), store.MaxAppend); err != nil {
		return 0, err
	}
	m := message(at.log, data)
	if expect != store.Any {
		m = message(at.log, data, headerLast, number(expect))
	}
	return s.publish(ctx, at.logs, m)
}

// BeginAppend is like Append, but does not wait for the answer. It reports whether the append was
// sent. If so, done is called once: with the position, or with a function rest that finds out the
// outcome. done must not block.
func (s *shards) BeginAppend(
	sh store.Shard, expect store.Position, data []byte,
	done func(store.Position, func(context.Context) (store.Position, error)),
) bool {
	known, ok := s.places.Load(sh)
	if !ok || len(data) > store.MaxAppend || s.checkPayload(data) != nil {
		return false
	}
	at := known.(*placed).place
	m := message(at.log, data)
	if expect != store.Any {
		m = message(at.log, data, headerLast, number(expect))
	}
	return s.begin(at.logs, m, func(seq uint64, rest func(context.Context) (uint64, error)) {
		if rest == nil {
			done(store.Position(seq), nil)
			return
		}
		done(0, func(ctx context.Context) (store.Position, error) {
			seq, err := rest(ctx)
			return store.Position(seq), fail(opAppend, sh.String(), err)
		})
	})
}

// Read implements [store.Logs].
func (s *shards) Read(ctx context.Context, sh store.Shard, from, to store.Position) ([]store.Append, error) {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return nil, fail(opRead, sh.String(), err)
	}
	r := &logReader{reader: s.reader, place: at, from: from, to: to}
	if err := r.read(ctx); err != nil {
		return nil, fail(opRead, sh.String(), err)
	}
	return r.found, nil
}

func (s *shards) behind(atLeast store.Revision) error {
	return fmt.Errorf("%w: no answering replica has revision %d (try again; if the servers lost it, restart the shard's home)", store.ErrUnavailable, atLeast)
}

// Head implements [store.Records]. It reads from the leader.
func (s *shards) Head(ctx context.Context, sh store.Shard) (store.Head, error) {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return store.Head{}, fail(opHead, sh.String(), err)
	}
	m, err := s.leaderHas(ctx, at.records, getRequest{LastFor: at.head})
	if err != nil || m == nil {
		return store.Head{}, fail(opHead, sh.String(), err)
	}
	return m.head(), nil
}

// Latest returns the revision of the latest record write in a shard, read from the leader. A Get
// with this revision as atLeast is not stale.
func (s *shards) Latest(ctx context.Context, sh store.Shard) (store.Revision, error) {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return 0, fail(opHead, sh.String(), err)
	}
	m, err := s.leaderHas(ctx, at.records, getRequest{LastFor: at.entities + ">"})
	if err != nil || m == nil {
		return store.None, fail(opHead, sh.String(), err)
	}
	return store.Revision(m.seq), nil
}

// SetHead implements [store.Records].
func (s *shards) SetHead(ctx context.Context, sh store.Shard, h store.Head) (store.Revision, error) {
	at, _, err := s.place(ctx, sh)
	if err == nil {
		err = store.CheckSize(len(h.Value), store.MaxHead)
	}
	if err != nil {
		return 0, fail(opSetHead, sh.String(), err)
	}
	seq, err := s.publish(ctx, at.records,
		message(at.head, h.Value, headerLast, number(h.Revision), headerSince, number(h.Since)))
	return store.Revision(seq), fail(opSetHead, sh.String(), err)
}

// Get implements [store.Records].
func (s *shards) Get(ctx context.Context, sh store.Shard, ids []string, atLeast store.Revision) (store.Head, []store.Record, error) {
	head, records, err := s.get(ctx, sh, ids, atLeast)
	if err != nil {
		return store.Head{}, nil, fail(opGetRecords, sh.String(), err)
	}
	return head, records, nil
}

func (s *shards) get(ctx context.Context, sh store.Shard, ids []string, atLeast store.Revision) (head store.Head, records []store.Record, err error) {
	if err := store.CheckIDs(ids); err != nil {
		return head, nil, err
	}
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return head, nil, err
	}
	records = make([]store.Record, len(ids))
	left := make(map[string]int, len(ids)) // by subject
	for i, id := range ids {
		records[i].Key = id
		left[at.entities+idToken(id)] = i
	}
	// Messages that do not fit in one answer are requested with the next. The head comes with the
	// last page. Earlier pages were read under this head or a former one, and not before atLeast.
	err = s.again(ctx, func(ctx context.Context) (bool, error) {
		for {
			subjects := make([]string, 0, len(left)+1)
			subjects = append(subjects, at.head)
			for subject := range left {
				subjects = append(subjects, subject)
			}
			p, err := s.page(ctx, at.records, getRequest{MultiLast: subjects, MaxBytes: pageBytes})
			if err != nil {
				return false, err
			}
			if p.upTo < uint64(atLeast) {
				return false, s.behind(atLeast)
			}
			head = store.Head{}
			for _, m := range p.messages {
				if m.subject == at.head {
					head = m.head()
					continue
				}
				if i, ok := left[m.subject]; ok && len(m.data) > 0 {
					records[i].Value, records[i].Revision = m.data, store.Revision(m.seq)
				}
				delete(left, m.subject)
			}
			if !p.more {
				return true, nil
			}
		}
	})
	return head, records, err
}

// Put implements [store.Records].
func (s *shards) Put(ctx context.Context, sh store.Shard, head store.Revision, changes []store.Change) (store.Revision, error) {
	last, err := s.put(ctx, sh, head, changes)
	if err != nil {
		return 0, fail(opPutRecords, sh.String(), err)
	}
	return last, nil
}

func (s *shards) put(ctx context.Context, sh store.Shard, head store.Revision, changes []store.Change) (store.Revision, error) {
	if err := store.CheckChanges(head, changes, store.MaxValue); err != nil {
		return 0, err
	}
	at, layout, err := s.place(ctx, sh)
	if err != nil {
		return 0, err
	}
	var all []*nats.Msg
	for _, c := range changes {
		if err := s.checkPayload(c.Value); err != nil {
			return 0, fmt.Errorf("record %q: %w", c.ID, err)
		}
		headers := []string{headerLast, number(head), headerLastSubject, at.head}
		if len(c.Value) == 0 {
			headers = append(headers, headerTTL, deletedFor)
		}
		all = append(all, message(at.entities+idToken(c.ID), c.Value, headers...))
	}
	publish := s.publishEach
	if layout.replicated {
		publish = s.publishBatch
	}
	last := head
	for _, part := range split(all) {
		seq, err := publish(ctx, at.records, part)
		if err != nil {
			return 0, err
		}
		last = max(last, store.Revision(seq))
	}
	return last, nil
}

// List implements [store.Records].
func (s *shards) List(ctx context.Context, sh store.Shard, after store.Revision) (found []store.Record, err error) {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return nil, fail(opListRecords, sh.String(), err)
	}
	if after == store.None { // let a replica catch up: a less stale list is more useful
		info, _, err := s.info(ctx, at.records)
		if err != nil {
			return nil, fail(opListRecords, sh.String(), err)
		}
		if info.State.Messages > 0 {
			_, _, _ = s.get(ctx, sh, nil, store.Revision(info.State.LastSeq)) // the list may still be stale
		}
	}
	for len(found) == 0 {
		var p page
		err := s.again(ctx, func(ctx context.Context) (bool, error) {
			p, err = s.page(ctx, at.records, getRequest{
				Seq: uint64(after) + 1, NextFor: at.entities + ">", Batch: pageMessages, MaxBytes: store.ListBytes,
			})
			return err == nil, err
		})
		if err != nil {
			return nil, fail(opListRecords, sh.String(), err)
		}
		for _, m := range p.messages {
			after = store.Revision(m.seq)
			if len(m.data) == 0 {
				continue // deleted
			}
			id, err := idOf(strings.TrimPrefix(m.subject, at.entities))
			if err != nil {
				return nil, fail(opListRecords, sh.String(), fmt.Errorf("%w: subject %q belongs to no record: %w (delete the message)", store.ErrUnavailable, m.subject, err))
			}
			found = append(found, store.Record{Key: id, Value: m.data, Revision: after})
		}
		if !p.more || len(p.messages) == 0 {
			break
		}
	}
	return found, nil
}
