package storeops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
)

// A Store is a store whose shards can be read without claiming them.
type Store interface {
	store.Backend
	// Last returns the position of the last append to a shard's log.
	Last(ctx context.Context, shard store.Shard) (store.Position, error)
}

// TypeOf reads the record of a durable type's fixed properties. It fails with store.ErrNotFound if
// no node has hosted the type with this store.
func TypeOf(ctx context.Context, s store.Store, kind string) (t durablehost.Type, err error) {
	key := durablehost.TypeKey(kind)
	r, err := s.Get(ctx, key)
	if err != nil {
		return t, fmt.Errorf("type %s: %w", kind, err)
	}
	if err := json.Unmarshal(r.Value, &t); err != nil {
		return t, fmt.Errorf("type %s: record %q of the store is damaged: %w (restore it from a backup)", kind, key, err)
	}
	return t, nil
}

// ShardsOf returns the numbers of a type's shards: from first up to, but not including, end. A type
// with n shards has the numbers n to 2n-1.
func ShardsOf(t durablehost.Type) (first, end int) { return int(t.Shards), 2 * int(t.Shards) }

// readTries bounds how often a shard is read, because its log may be trimmed during a read.
// readPause is the time between two reads.
const (
	readTries = 5
	readPause = 100 * time.Millisecond
)

// clockOf returns the clock of a store, by which entities expire.
func clockOf(ctx context.Context, s store.Backend) (*durablehost.Clock, error) {
	c := durablehost.NewClock(s)
	_, err := c.Ask(ctx)
	return c, err
}

// ReadShard reads one shard. It leaves out entities that have expired.
func ReadShard(ctx context.Context, s Store, shard store.Shard) (snap durable.Snapshot, err error) {
	err = readShard(ctx, s, shard, func(found contents) error {
		snap = found.snap()
		return nil
	})
	return snap, err
}

type contents struct {
	head    store.Head
	log     []store.Append // from the head's Since
	records []store.Record
	now     time.Time // of the store
	lost    error     // what the store has lost of the log or the head; nil means nothing
}

func (c *contents) decode() durable.Snapshot {
	return durable.Snap(c.head, c.log, c.records, c.lost)
}

func (c *contents) snap() durable.Snapshot {
	snap := c.decode()
	now := c.now.UnixMilli()
	snap.Entities = slices.DeleteFunc(snap.Entities, func(k durable.StoredEntity) bool { return k.Expires != 0 && k.Expires <= now })
	return snap
}

// ReadAll returns the result of ReadShard, and an image of everything in the shard except the
// damaged parts, which [durable.Undamaged] leaves out. The image has no head if the shard was never
// used, or if too little of the shard can be decoded.
func ReadAll(ctx context.Context, s Store, shard store.Shard) (snap durable.Snapshot, image Image, err error) {
	err = readShard(ctx, s, shard, func(found contents) error {
		snap = found.snap()
		head, log, records := durable.Undamaged(found.head, found.log, found.records, snap.Problems)
		rest := contents{head: head, log: log, records: records, now: found.now}
		snap.Entities = rest.snap().Entities
		if image, err = imageOf(ctx, shard, found.now, head, log, records); err == nil || len(snap.Problems) > 0 {
			return nil
		}
		if now, again := s.Shards().Head(ctx, shard); again == nil && now.Revision != head.Revision {
			return fmt.Errorf("shard %v: %w: a checkpoint was written meanwhile (repeat the command, or stop the nodes)", shard, store.ErrGone)
		}
		return fmt.Errorf("shard %v: %w", shard, err)
	})
	return snap, image, err
}

// readShard reads a shard's contents and passes them to do. If the log was trimmed, the shard was
// claimed or chunks of the journal were missing during the read, it reads again, at most readTries
// times in all. It also reads again if do returns ErrGone. If the last read still lacks the
// beginning of the log, and the head's Since is the same as in the first read, that beginning is
// lost: the contents say so in the field lost.
func readShard(ctx context.Context, s Store, shard store.Shard, do func(contents) error) error {
	clock, err := clockOf(ctx, s)
	if err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	var first store.Position
	for n := 1; ; n++ {
		head, err := s.Shards().Head(ctx, shard)
		if err != nil {
			return err
		}
		if n == 1 {
			first = head.Since
		}
		found, err := collect(ctx, s, shard, head, n == readTries && head.Since == first)
		if err == nil && n < readTries && head.Revision == store.None && len(found.log) > 0 {
			err = fmt.Errorf("shard %v: %w: it was claimed meanwhile", shard, store.ErrGone)
		}
		if err == nil && n < readTries && durable.LacksChunks(found.records) {
			err = fmt.Errorf("shard %v: %w: its journal was trimmed meanwhile", shard, store.ErrGone)
		}
		if err == nil {
			found.now, _ = clock.Now()
			err = do(found)
		}
		if err == nil || n == readTries || !errors.Is(err, store.ErrGone) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(readPause):
		}
	}
}

// collect reads a shard's records, and its log from the head's Since on. If the log lacks that
// beginning, collect fails with ErrGone or, if without is true, reports the loss in the field lost.
// While nodes run, the journal may be ahead of the log read so far, so collect reads the rest of
// the log after each page of records. Thereby it also reads new entries before a checkpoint trims
// them, unless one page takes too long.
func collect(ctx context.Context, s Store, shard store.Shard, head store.Head, without bool) (contents, error) {
	found := contents{head: head}
	if err := found.extend(ctx, s, shard, without); err != nil {
		return found, err
	}
	if head.Revision == store.None && len(found.log) == 0 && found.lost == nil {
		return found, nil // without a head there are no records
	}
	at := make(map[string]int)
	for after := store.None; ; {
		page, err := s.Shards().List(ctx, shard, after)
		if err == nil {
			err = found.extend(ctx, s, shard, without)
		}
		if err == nil && len(page) == 0 && found.lost == nil {
			if lost := durable.CheckEnd(head, found.log); lost != nil && without {
				found.lost = lost
			} else if lost != nil {
				err = fmt.Errorf("%w: %w", store.ErrGone, lost)
			}
		}
		if err != nil || len(page) == 0 {
			return found, err
		}
		for _, r := range page {
			if i, there := at[r.Key]; there { // it was written meanwhile
				found.records[i] = r
				continue
			}
			at[r.Key] = len(found.records)
			found.records = append(found.records, r)
		}
		after = page[len(page)-1].Revision
	}
}

func (c *contents) extend(ctx context.Context, s Store, shard store.Shard, without bool) error {
	last, err := s.Last(ctx, shard)
	if err != nil || c.lost != nil && c.log == nil {
		return err
	}
	from, n := c.head.Since, len(c.log)
	if n > 0 {
		from = c.log[n-1].Position
	}
	if n > 0 && from == last || last == store.Start && from == store.Start {
		return nil
	}
	more, err := s.Shards().Read(ctx, shard, from, last)
	if n == 0 && err == nil {
		if whole, lost := durable.CheckBegin(c.head, more[0]); lost != nil && without {
			c.lost = lost
			if !whole {
				more = nil
			}
		} else if lost != nil {
			err = fmt.Errorf("%w: %w", store.ErrGone, lost)
		}
	}
	if n == 0 && without && errors.Is(err, store.ErrGone) {
		c.lost, more, err = err, nil, nil
	}
	if err == nil && n > 0 {
		more = more[1:] // it is there
	}
	c.log = append(c.log, more...)
	return err
}
