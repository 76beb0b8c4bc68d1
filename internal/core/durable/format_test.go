package durable

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
)

var update = flag.Bool("update", false, "write what is missing in testdata/format1; what is there stays as it is")

func entry(e *wire.DurableEntry) *wire.DurableAppend {
	return &wire.DurableAppend{
		Format: 1, Epoch: 7, Incarnation: 0x1234567890abcdef, Claim: 2, Counter: 3, Entries: []*wire.DurableEntry{e},
	}
}

func claimEntry() *wire.DurableEntry {
	return &wire.DurableEntry{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: "n1"}}}
}

// samples returns messages in which every field of the format is set somewhere.
func samples() map[string]stored {
	source := &wire.DurableSource{Incarnation: 0xfedcba0987654321}
	log := &wire.DurableSource{Log: "bank.Account", Shard: 63}
	told := &wire.DurableTold{Tells: []*wire.DurableNumbers{{Log: "bank.Account", Shard: 1, Numbers: []uint64{1, 3, 1 << 40}}}}
	commit := &wire.DurableCommit{
		Entity: []byte("entity \x00\xff"), Version: 300, State: []byte("state \x00\xff"), At: 1_763_820_000_123,
		Command: &wire.DurableCommand{Source: source, Number: 9, Path: []byte("0123456789abcdef"), Floor: 4, Hash: 5, Answer: []byte("reply")},
		Tells:   []*wire.DurableTell{{Log: "bank.Account", Shard: 1, Number: 3, Body: []byte("body")}},
	}
	ended := &wire.DurableCommit{Entity: []byte("e"), Version: 2, Ended: true, At: 1, Command: &wire.DurableCommand{Source: log, Number: 1, Floor: 1}}
	nested := &wire.DurableSource{Log: "bank.Account", Shard: 63, To: "bank.Bank", ToShard: 2}
	tells := &wire.DurableCommit{
		Entity: []byte("e"), Version: 2, At: 1, Command: &wire.DurableCommand{Source: nested, Number: 1, Path: []byte("0123456789abcdef"), Floor: 1},
		Tells: []*wire.DurableTell{{Log: "bank.Account", Shard: 1, Number: 3, Entity: []byte("told \x00\xff"), Body: []byte("body")}},
	}
	folded := &wire.DurableCommit{Entity: []byte("e"), Version: 3, At: 1, Events: [][]byte{[]byte("event"), {}}, Event: 17, Folded: true}
	keyed := &wire.DurableCommit{
		Entity: []byte("e"), Version: 3, State: []byte("state"), At: 1, Keys: 2,
		Command: &wire.DurableCommand{Source: &wire.DurableSource{Incarnation: 1, Log: "sum"}, Number: 1, Floor: 1, Hash: 5, Key: []byte("key \x00\xff")},
	}
	keys := []*wire.DurableKey{{Key: []byte("key \x00\xff"), Hash: 5, Answer: []byte("reply"), At: 1_763_820_000_123}}
	return map[string]stored{
		"keyed": entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: keyed}}),
		"expires": entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{
			Entity: []byte("e"), Version: 3, State: []byte("state"), At: 1, Expires: 1_763_820_000_123,
		}}}),
		"record-expires": &wire.DurableRecord{Format: 1, Entity: []byte("e"), Version: 3, State: []byte("state"), Expires: 1_763_820_000_123},
		"form": entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: &wire.DurableCommit{
			Entity: []byte("e"), Version: 3, State: []byte("state"), At: 1, Form: 2,
		}}}),
		"record-form":  &wire.DurableRecord{Format: 1, Entity: []byte("e"), Version: 3, State: []byte("state"), Form: 2},
		"record-keys":  &wire.DurableRecord{Format: 1, Entity: []byte("e"), Version: 3, State: []byte("state"), Keys: keys},
		"record-ended": &wire.DurableRecord{Format: 1, Entity: []byte("e"), Version: 3, Keys: keys, Ended: true},
		"folded":       entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: folded}}),
		"record-since": &wire.DurableRecord{Format: 1, Entity: []byte("e"), Version: 3, State: []byte("state"), Since: [][]byte{[]byte("event"), {}}},
		"journal":      &wire.DurableJournal{Format: 1, First: 2, Last: 3, Number: 18},
		"chunk": &wire.DurableChunk{Format: 1, Chunk: 3, Events: []*wire.DurableEvent{
			{Number: 17, Entity: []byte("e"), Version: 3, At: 1, Event: []byte("event")},
		}},
		"leaf": &wire.DurableLeaf{Format: 1, Leaf: 3, Generation: 5, Keys: [][]byte{[]byte("\x00entity \x00\xff"), []byte("\x00other")}},
		"table-leaves": &wire.DurableTable{Format: 1, Generation: 5, Catalog: true, Leaves: []*wire.DurableLeafAt{
			{Leaf: 3, Slot: 1, Generation: 5, Bytes: 30}, {Leaf: 7, Generation: 4, First: []byte("\x00m"), Bytes: 3}, {Leaf: 8, Slot: 1, Generation: 3, Free: true},
		}},
		"tells": entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: tells}}),
		"table-tells": &wire.DurableTable{
			Format: 1, Generation: 6,
			Sources: []*wire.DurableKnown{{Source: nested, Floor: 2}},
			Outboxes: []*wire.DurableOutbox{{Log: "bank.Account", Shard: 1, Next: 4, Waiting: []*wire.DurableWaiting{
				{Number: 3, At: 12, Entity: []byte("told \x00\xff"), Body: []byte("body")},
			}}},
		},
		"claim":        &wire.DurableAppend{Format: 1, Epoch: 7, Incarnation: 0x1234567890abcdef, Claim: 2, Entries: []*wire.DurableEntry{claimEntry()}},
		"commit":       entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: commit}}),
		"ended":        entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Commit{Commit: ended}}),
		"empty":        entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}}),
		"acknowledged": entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Acknowledged{Acknowledged: told}}),
		"dead":         entry(&wire.DurableEntry{Kind: &wire.DurableEntry_Dead{Dead: told}}),
		"head-since": &wire.DurableHead{
			Format: 1, Epoch: 7, Node: "n1", Incarnation: 0x1234567890abcdef, Write: 3, SinceEpoch: 6,
		},
		"head":   &wire.DurableHead{Format: 1, Epoch: 7, Node: "n1", Incarnation: 0x1234567890abcdef, Write: 3, Generation: 5, Parts: 2},
		"record": &wire.DurableRecord{Format: 1, Entity: []byte("entity \x00\xff"), Version: 300, State: []byte("state \x00\xff")},
		"table": &wire.DurableTable{
			Format: 1, Generation: 5, Part: 1,
			Sources: []*wire.DurableKnown{{Source: source, Floor: 4, Commands: []*wire.DurableCommand{
				{Number: 9, Path: []byte("0123456789abcdef"), Hash: 5, Answer: []byte("reply")},
			}}, {Source: log, Floor: 1}},
			Outboxes: []*wire.DurableOutbox{{Log: "bank.Account", Shard: 1, Next: 4, Waiting: []*wire.DurableWaiting{{Number: 3, At: 12, Body: []byte("body")}}}},
		},
	}
}

// sampleNames returns the names of the samples, in order.
func sampleNames() (all []string) {
	for n := range samples() {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// TestFormat1 reads what programs of format 1 have written. Later programs must always be able to.
func TestFormat1(t *testing.T) {
	for _, n := range sampleNames() {
		want, path := samples()[n], filepath.Join("testdata", "format1", n+".bin")
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && *update {
			b = seal(want)
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := want.ProtoReflect().New().Interface().(stored)
		if err := unseal(b, got); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if !proto.Equal(got, want) {
			t.Errorf("%s: got %v\nwant %v", path, got, want)
		}
		if formatNow == 1 && !bytes.Equal(seal(want), b) {
			t.Errorf("%s: this program writes other bytes in format 1", path)
		}
	}
}

// TestCorruptBytes: reading detects every changed bit, and bytes that were cut off or added.
func TestCorruptBytes(t *testing.T) {
	for _, n := range sampleNames() {
		m := samples()[n]
		b := seal(m)
		refused := func(b []byte) {
			t.Helper()
			if err := unseal(b, m.ProtoReflect().New().Interface().(stored)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %x: got %v, want ErrCorrupt", n, b, err)
			}
		}
		for i := range b {
			for bit := range 8 {
				c := slices.Clone(b)
				c[i] ^= 1 << bit
				refused(c)
			}
			refused(b[:i])
		}
		refused(append(slices.Clone(b), 0))
	}
}

// TestNewerFormats: what a newer program wrote is refused as a whole, wherever it says
// something that this one does not know.
func TestNewerFormats(t *testing.T) {
	field := protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 1)
	check := func(name string, m stored) {
		t.Helper()
		if err := unseal(seal(m), m.ProtoReflect().New().Interface().(stored)); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %v, want ErrNewer", name, err)
		}
	}
	for _, n := range sampleNames() {
		m := samples()[n]
		m.ProtoReflect().SetUnknown(field)
		check(n+" with a field of its own", m)
	}
	newer := samples()["commit"].(*wire.DurableAppend)
	newer.Format = 2
	check("format 2", newer)
	inside := samples()["commit"].(*wire.DurableAppend)
	inside.Entries[0].GetCommit().GetTells()[0].ProtoReflect().SetUnknown(field)
	check("a field within a tell", inside)
	kind := entry(&wire.DurableEntry{})
	kind.Entries[0].ProtoReflect().SetUnknown(field)
	check("an entry of a newer kind", kind)

	if _, err := readAppend(seal(entry(&wire.DurableEntry{}))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry of no kind: got %v, want ErrCorrupt", err)
	}
	if err := unseal(seal(&wire.DurableHead{Epoch: 1}), &wire.DurableHead{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("no format: got %v, want ErrCorrupt", err)
	}
}
