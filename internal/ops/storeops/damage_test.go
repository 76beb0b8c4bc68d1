package storeops

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A lossy is a store in memory whose shard's log has lost the appends after last.
type lossy struct {
	*memory.Client
	last store.Position
}

func (s *lossy) Last(context.Context, store.Shard) (store.Position, error) { return s.last, nil }

// sealed encodes a message with its checksum, as package durable does.
func sealed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.AppendUint32(append(b, 15<<3|5), sum)
}

const writerEpoch = 5 << 32

func appendOf(counter uint64, entries ...*wire.DurableEntry) *wire.DurableAppend {
	return &wire.DurableAppend{Format: 1, Epoch: writerEpoch, Incarnation: 5, Claim: 1, Counter: counter, Entries: entries}
}

// commitOf returns a log entry that commits an entity's state. If state is empty, the entry has
// only an event.
func commitOf(id string, version uint64, state string) *wire.DurableEntry {
	c := &wire.DurableCommit{
		Entity: []byte(id), Version: version, State: []byte(state), At: 1,
		Command: &wire.DurableCommand{Source: &wire.DurableSource{Incarnation: 9}, Number: version, Hash: 1},
	}
	if state == "" {
		c.State, c.Folded, c.Events, c.Event = nil, true, [][]byte{{2}}, version
	}
	return &wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: c}}
}

// headless returns a store with a shard whose log lacks the append at the head's Since. The
// position in Since is of another log.
func headless(t *testing.T, records []*wire.DurableRecord, rest ...*wire.DurableAppend) (s *lossy, shard store.Shard) {
	t.Helper()
	ctx := t.Context()
	s, shard = &lossy{Client: memory.New().Client()}, store.Shard{Type: "X", Number: 1}
	since, err := s.Shards().Append(ctx, store.Shard{Type: "X", Number: 2}, store.Any, []byte("another log's"))
	if err != nil {
		t.Fatal(err)
	}
	revision, err := s.Shards().SetHead(ctx, shard, store.Head{Since: since, Value: durable.FreshHead("n", 5, writerEpoch, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		change := store.Change{ID: durable.EntityKey(string(r.GetEntity())), Value: sealed(t, r)}
		if _, err := s.Shards().Put(ctx, shard, revision, []store.Change{change}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range rest {
		if s.last, err = s.Shards().Append(ctx, shard, store.Any, sealed(t, a)); err != nil {
			t.Fatal(err)
		}
	}
	return s, shard
}

// TestLostLog checks that a shard whose log lacks its beginning is reported, and that its image has
// the states in the records.
func TestLostLog(t *testing.T) {
	a := &wire.DurableRecord{Format: 1, Entity: []byte("a"), Version: 1, State: []byte("a1")}
	claim := &wire.DurableAppend{
		Format: 1, Epoch: writerEpoch + 1, Incarnation: 6, Claim: 1,
		Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: "x"}}}},
	}
	for name, rest := range map[string][]*wire.DurableAppend{
		"commits":  {appendOf(7, commitOf("a", 3, "a3")), appendOf(8, commitOf("b", 2, ""))},
		"a claim":  {claim},
		"no entry": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, shard := headless(t, []*wire.DurableRecord{a}, rest...)
			snap, image, err := ReadAll(t.Context(), s, shard)
			if err != nil || len(snap.Problems) != 1 || snap.Problems[0].Place != "log" {
				t.Fatalf("problems %v (%v), want that of the log", snap.Problems, err)
			}
			i := slices.IndexFunc(image.Records, func(r store.Change) bool { return r.ID == durable.EntityKey("a") })
			if len(snap.Entities) != 1 || string(snap.Entities[0].State) != "a1" || image.Entities() != 1 || i < 0 {
				t.Fatalf("entities %v, image %v: want a alone", snap.Entities, image)
			}
			var record wire.DurableRecord
			if err := proto.Unmarshal(image.Records[i].Value, &record); err != nil || string(record.GetState()) != "a1" {
				t.Errorf("a is %q, %v: want a1", record.GetState(), err)
			}
		})
	}
}

// TestLostEndOfTheLog checks that a log that ends before the append that the head needs is reported, and
// that the image has what there is.
func TestLostEndOfTheLog(t *testing.T) {
	b := newBusy(t)
	b.append(appendOf(1, commitOf("a", 1, "a1")))
	for reach, problems := range map[uint64]int{1: 0, 2: 1} {
		head := &wire.DurableHead{Format: 1, Epoch: writerEpoch, Node: "n", Incarnation: 5, Write: 2, ReachEpoch: writerEpoch, Reach: reach}
		var err error
		if b.revision, err = b.Client.Shards().SetHead(t.Context(), b.shard, store.Head{Revision: b.revision, Value: sealed(t, head)}); err != nil {
			t.Fatal(err)
		}
		snap, image, err := ReadAll(t.Context(), b, b.shard)
		if err != nil || len(snap.Problems) != problems || image.Entities() != 1 {
			t.Errorf("the head needs append %d of 1: problems %v, image of %d entities, %v: want %d and 1", reach, snap.Problems, image.Entities(), err, problems)
		}
	}
}

// TestDamagedRecordUnderEvents checks that a damaged record is reported and cannot be deleted alone
// if events in the log follow it: without the record the shard could not be opened.
func TestDamagedRecordUnderEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		commit  *wire.DurableEntry
		reports bool // the damage
		refuses bool // to drop the record
	}{
		"events":        {commitOf("a", 2, ""), true, true},
		"keys":          {&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{Entity: []byte("a"), Version: 2, State: []byte("a2"), Keys: 1, At: 1}}}, true, false},
		"a whole state": {commitOf("a", 2, "a2"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBusy(t)
			if c := tt.commit.GetCommit(); len(c.GetEvents()) > 0 {
				c.Event = 1
			}
			b.append(appendOf(1, tt.commit))
			if _, err := b.Client.Shards().Put(t.Context(), b.shard, b.revision, []store.Change{{ID: durable.EntityKey("a"), Value: []byte("garbage")}}); err != nil {
				t.Fatal(err)
			}
			snap, err := ReadShard(t.Context(), b, b.shard)
			if err != nil || (len(snap.Problems) == 1) != tt.reports {
				t.Errorf("problems %v (%v), want them: %v", snap.Problems, err, tt.reports)
			}
			if err := CheckRepair(t.Context(), b, b.shard, "a"); (err != nil) != tt.refuses {
				t.Errorf("repair: %v, want it refused: %v", err, tt.refuses)
			}
		})
	}
}

// TestGapInTheLog checks that a log that lost events is reported. Its image ends before the gap, so
// that no follower waits for the lost events.
func TestGapInTheLog(t *testing.T) {
	event := func(id string, version, number uint64) *wire.DurableEntry {
		e := commitOf(id, version, id+" has a state")
		e.GetCommit().Events, e.GetCommit().Event = [][]byte{[]byte(id)}, number
		return e
	}
	b := newBusy(t)
	b.append(appendOf(1, event("a", 1, 1), event("b", 1, 2)))
	b.append(appendOf(2, event("c", 1, 4)))
	snap, image, err := ReadAll(t.Context(), b, b.shard)
	if err != nil || len(snap.Problems) != 1 || len(snap.Entities) != 2 || image.Entities() != 2 {
		t.Fatalf("%v, image of %d entities (%v): want a problem of the second append", snap, image.Entities(), err)
	}
	if got, want := followImage(t, image), []string{"1 a", "2 b"}; !slices.Equal(got, want) {
		t.Errorf("a follower reads %q, want %q", got, want)
	}
}

// TestDamagedRecordOfTheLastCommit checks that a damaged record is reported even if the append at
// the head's Since, where reading begins, has its entity: a home reads the record.
func TestDamagedRecordOfTheLastCommit(t *testing.T) {
	b := newBusy(t)
	b.commit()
	next := store.Head{Revision: b.revision, Since: b.last, Value: durable.FreshHead("n", 5, writerEpoch, nil)}
	revision, err := b.Client.Shards().SetHead(t.Context(), b.shard, next)
	if err == nil {
		_, err = b.Client.Shards().Put(t.Context(), b.shard, revision, []store.Change{{ID: durable.EntityKey("a"), Value: []byte("garbage")}})
	}
	if err != nil {
		t.Fatal(err)
	}
	snap, image, err := ReadAll(t.Context(), b, b.shard)
	if err != nil || len(snap.Problems) != 1 || snap.Problems[0].Entity != "a" || len(snap.Entities) > 0 {
		t.Errorf("problems %v, entities %v (%v), want that the record is damaged", snap.Problems, snap.Entities, err)
	}
	if i := slices.IndexFunc(image.Records, func(r store.Change) bool { return r.ID == durable.EntityKey("a") }); i >= 0 {
		t.Error("the damaged record is in the image")
	}
}
