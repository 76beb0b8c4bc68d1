package storeops

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A busy is a store in memory that changes while it is read: during the first listing of its
// shard's records, commits with events are written to the log, and their events to the journal.
type busy struct {
	*memory.Client
	t        *testing.T
	shard    store.Shard
	revision store.Revision // of the head
	last     store.Position
	events   uint64 // that were committed
	listings int
	heads    []store.Head // as they were before, which are read first
}

func (b *busy) Last(context.Context, store.Shard) (store.Position, error) { return b.last, nil }

func (b *busy) Shards() store.Shards { return busyShards{b.Client.Shards(), b} }

type busyShards struct {
	store.Shards
	busy *busy
}

func (s busyShards) Head(ctx context.Context, shard store.Shard) (store.Head, error) {
	if b := s.busy; len(b.heads) > 0 {
		h := b.heads[0]
		b.heads = b.heads[1:]
		return h, nil
	}
	return s.Shards.Head(ctx, shard)
}

func (s busyShards) List(ctx context.Context, shard store.Shard, after store.Revision) ([]store.Record, error) {
	if s.busy.listings--; s.busy.listings >= 0 {
		s.busy.commit()
	}
	return s.Shards.List(ctx, shard, after)
}

func (b *busy) append(a *wire.DurableAppend) {
	b.t.Helper()
	p, err := b.Client.Shards().Append(b.t.Context(), b.shard, store.Any, sealed(b.t, a))
	if err != nil {
		b.t.Fatal(err)
	}
	b.last = p
}

// newBusy returns a store with a shard that a home has claimed.
func newBusy(t *testing.T) *busy {
	t.Helper()
	b := &busy{Client: memory.New().Client(), t: t, shard: store.Shard{Type: "X", Number: 1}}
	var err error
	b.revision, err = b.Client.Shards().SetHead(t.Context(), b.shard, store.Head{Value: durable.FreshHead("n", 5, writerEpoch, nil)})
	if err != nil {
		t.Fatal(err)
	}
	b.append(&wire.DurableAppend{
		Format: 1, Epoch: writerEpoch, Incarnation: 5, Claim: 1,
		Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: "n"}}}},
	})
	return b
}

// commit commits a state with an event, and writes the event to the journal, as the shard's home
// does.
func (b *busy) commit() {
	b.t.Helper()
	b.events++
	n := b.events
	e := commitOf("a", n, fmt.Sprint("a", n))
	e.GetCommit().Events, e.GetCommit().Event = [][]byte{fmt.Append(nil, n)}, n
	b.append(appendOf(n, e))
	chunk := &wire.DurableChunk{Format: 1, Chunk: n, Events: []*wire.DurableEvent{{Number: n, Entity: []byte("a"), Version: n, Event: fmt.Append(nil, n)}}}
	index := &wire.DurableJournal{Format: 1, First: 1, Last: n, Number: n}
	_, err := b.Client.Shards().Put(b.t.Context(), b.shard, b.revision, []store.Change{
		{ID: fmt.Sprint("j", n), Value: sealed(b.t, chunk)}, {ID: "j", Value: sealed(b.t, index)},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestImageOfABusyShard checks that an image's journal has the events of exactly the image's
// commits, even if commits are made while the shard is read.
func TestImageOfABusyShard(t *testing.T) {
	for _, listings := range []int{0, 1, 2, 5} {
		t.Run(fmt.Sprint(listings, " commits meanwhile"), func(t *testing.T) {
			b := newBusy(t)
			b.listings = listings
			b.commit()
			_, image, err := ReadAll(t.Context(), b, b.shard)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(image.Records, func(r store.Change) bool { return r.ID == durable.EntityKey("a") })
			if i < 0 {
				t.Fatal("the image lacks the entity")
			}
			var record wire.DurableRecord
			if err := proto.Unmarshal(image.Records[i].Value, &record); err != nil {
				t.Fatal(err)
			}
			var want []string
			for n := range record.GetVersion() {
				want = append(want, fmt.Sprint(n+1, " ", n+1))
			}
			if got := followImage(t, image); !slices.Equal(got, want) {
				t.Errorf("the entity has version %d, and a follower reads %q, want %q", record.GetVersion(), got, want)
			}
		})
	}
}

// TestHeadOfABusyShard checks that a log that does not match its head counts as damage only if the
// head was not written or moved during the read.
func TestHeadOfABusyShard(t *testing.T) {
	trimmed := func(t *testing.T) (*busy, store.Head) {
		b := newBusy(t)
		before, err := b.Client.Shards().Head(t.Context(), b.shard)
		if err != nil {
			t.Fatal(err)
		}
		b.commit()
		b.commit()
		now := store.Head{Revision: before.Revision, Since: b.last, Value: durable.FreshHead("n", 5, writerEpoch, nil)}
		if b.revision, err = b.Client.Shards().SetHead(t.Context(), b.shard, now); err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Shards().Trim(t.Context(), b.shard, now); err != nil {
			t.Fatal(err)
		}
		return b, before
	}
	for name, tt := range map[string]struct {
		reads int // that see the former head
		none  bool
		want  []string // the places of problems
	}{
		"claimed meanwhile": {2, true, nil},
		"trimmed meanwhile": {2, false, nil},
		"without a head":    {9, true, []string{"log", "head"}},
		"lost":              {9, false, []string{"log"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, before := trimmed(t)
			if tt.none {
				before = store.Head{}
			}
			b.heads = slices.Repeat([]store.Head{before}, tt.reads)
			snap, err := ReadShard(t.Context(), b, b.shard)
			if err != nil {
				t.Fatal(err)
			}
			var places []string
			for _, p := range snap.Problems {
				places = append(places, p.Place)
			}
			if !slices.Equal(places, tt.want) {
				t.Errorf("problems %+v, want %q", snap.Problems, tt.want)
			}
		})
	}
}

// followImage returns the events that a follower reads from a restored image, each after its
// number.
func followImage(t *testing.T, image Image) (got []string) {
	t.Helper()
	records := map[string]store.Record{}
	for _, r := range image.Records {
		records[r.ID] = store.Record{Key: r.ID, Value: r.Value, Revision: 1}
	}
	for place := (durable.Place{}); ; {
		events, after, err := place.Look(func(keys ...string) (read []store.Record, err error) {
			for _, key := range keys {
				read = append(read, records[key])
			}
			return read, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 && after == place {
			return got // it has read all
		}
		for _, e := range events {
			got = append(got, fmt.Sprint(e.Place.Number, " ", string(e.Event)))
		}
		place = after
	}
}
