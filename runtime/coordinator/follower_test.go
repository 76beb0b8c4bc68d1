package coordinator

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

var t0 = time.Unix(1_000_000, 0)

func termOf(n uint32) placement.Term { return placement.Term{Number: n, Incarnation: 1} }

func versionOf(term uint32, seq uint64) placement.Version {
	return placement.Version{Term: termOf(term), Seq: seq}
}

// tableOf returns a difference of one step that gives Cart/2 the home.
func tableOf(term uint32, seq uint64, home transport.Address) Table {
	d := placement.Diff{From: versionOf(term, seq-1), To: versionOf(term, seq), Full: seq == 1}
	d.Entries = []placement.Entry{{ShardID: placement.ShardID{Kind: "Cart", Shard: 2}, Home: home, Epoch: placement.MakeEpoch(term, uint32(seq))}}
	return Table{Diff: d, Parts: 1}
}

// beyond returns t with a part number that is too high.
func beyond(t Table) Table {
	t.Part = t.Parts
	return t
}

func TestFollower(t *testing.T) {
	a, b := node("a"), node("b")
	type step struct {
		name     string
		at       time.Duration
		message  Message
		refused  bool
		table    uint64 // Seq of the new table
		register bool
		request  bool
		wake     time.Duration // from t0; 0 means none
	}
	f := NewFollower(true)
	for _, s := range []step{
		{name: "nothing is known", message: nil},
		{name: "a term: promise, then register", message: TableStatus{versionOf(1, 0)}, register: true, wake: 500 * time.Millisecond},
		{name: "not again at once", at: 100 * time.Millisecond, wake: 500 * time.Millisecond},
		{name: "but when no answer came", at: 500 * time.Millisecond, register: true, wake: time.Second},
		{name: "a status, as to one who was refused and is a member now", at: 510 * time.Millisecond, message: TableStatus{versionOf(1, 0)}, register: true, wake: 1010 * time.Millisecond},
		{name: "an answer to something older", at: 600 * time.Millisecond, message: Registered{termOf(1), 0}, wake: 1010 * time.Millisecond},
		{name: "the answer", at: 600 * time.Millisecond, message: Registered{termOf(1), 1}},
		{name: "the first table", at: 700 * time.Millisecond, message: tableOf(1, 1, a), table: 1},
		{name: "the first table again", at: 700 * time.Millisecond, message: tableOf(1, 1, a)},
		{name: "a gap", at: 800 * time.Millisecond, message: tableOf(1, 3, a), request: true, wake: time.Second},
		{name: "what was missing comes late", at: 900 * time.Millisecond, message: tableOf(1, 2, b), table: 2, wake: time.Second},
		{name: "still behind", at: time.Second, request: true, wake: 1200 * time.Millisecond},
		{name: "the rest", at: 1100 * time.Millisecond, message: tableOf(1, 3, a), table: 3},
		{name: "a status says what was lost", at: 2 * time.Second, message: TableStatus{versionOf(1, 5)}, request: true, wake: 2200 * time.Millisecond},
		{name: "a higher term", at: 3 * time.Second, message: MoveCancel{Term: termOf(2)}, register: true, wake: 3500 * time.Millisecond},
		{name: "the lower one is over", at: 3 * time.Second, message: tableOf(1, 4, b), refused: true, wake: 3500 * time.Millisecond},
		{name: "also its orders", at: 3 * time.Second, message: MoveBegin{Term: termOf(1)}, refused: true, wake: 3500 * time.Millisecond},
		{name: "the answer of the new one", at: 3 * time.Second, message: Registered{termOf(2), 1}},
		{name: "its table", at: 3 * time.Second, message: tableOf(2, 1, b), table: 1},
		{name: "a part that the next one does not have", at: 3 * time.Second, message: beyond(tableOf(2, 2, a)), request: true, wake: 3200 * time.Millisecond},
	} {
		out := f.Step(t0.Add(s.at), a, s.message)
		table := uint64(0)
		if out.Table != nil {
			table = out.Table.Version().Seq
		}
		wake := time.Duration(0)
		if !out.WakeAt.IsZero() {
			wake = out.WakeAt.Sub(t0)
		}
		got := step{s.name, s.at, s.message, out.Refused, table, out.Register, len(out.Send) > 0, wake}
		if got.refused != s.refused || got.table != s.table || got.register != s.register || got.request != s.request || got.wake != s.wake {
			t.Errorf("%s: got %+v\nwant %+v", s.name, got, s)
		}
	}
}

func TestFollowerRegistersWhatChanged(t *testing.T) {
	f := NewFollower(true)
	f.Step(t0, node("a"), TableStatus{versionOf(1, 0)})
	first := f.Register(node("b"), nil, nil)
	if !f.Unsettled() {
		t.Error("settled before the first table")
	}
	f.Changed()
	if out := f.Step(t0, node("a"), nil); !out.Register {
		t.Error("a change is not registered at once")
	}
	second := f.Register(node("b"), nil, nil)
	if first.Seq != 1 || second.Seq != 2 || second.Term != termOf(1) {
		t.Errorf("registered %+v, then %+v; want Seq 1, then 2", first, second)
	}
	f.Step(t0, node("a"), Registered{termOf(1), 1})
	if out := f.Step(t0.Add(time.Second), node("a"), nil); !out.Register {
		t.Error("the answer to the first registration was taken for the second's")
	}
	f.Step(t0, node("a"), tableOf(1, 1, node("a")))
	if f.Unsettled() {
		t.Error("unsettled after the first table")
	}
}

func TestFollowerThatHostsNothing(t *testing.T) {
	f := NewFollower(false)
	if out := f.Step(t0, node("a"), TableStatus{versionOf(1, 3)}); out.Register || len(out.Send) != 1 {
		t.Errorf("got %+v, want a table request and no registration", out)
	}
}

func TestAnswer(t *testing.T) {
	table, err := (*placement.Table)(nil).Apply(tableOf(1, 1, node("a")).Diff)
	if err != nil {
		t.Fatal(err)
	}
	if got := Answer(table, TableRequest{versionOf(1, 1)}); got != nil {
		t.Errorf("to a client that has the table: %+v", got)
	}
	if got := Answer(nil, TableRequest{}); got != nil {
		t.Errorf("from a member without a table: %+v", got)
	}
	if got := Answer(table, TableRequest{}); len(got) != 1 || !got[0].Full || len(got[0].Entries) != 1 {
		t.Errorf("to a client without a table: %+v", got)
	}
}

// TestFollowerDropsPartsOfAnotherTable: a follower does not assemble a table from parts of
// different tables.
func TestFollowerDropsPartsOfAnotherTable(t *testing.T) {
	f := NewFollower(false)
	f.Step(t0, node("a"), TableStatus{versionOf(1, 0)})
	part := func(seq uint64, n uint32) (next *placement.Table) {
		table := tableOf(1, seq, node("b"))
		table.From, table.Full, table.Part, table.Parts = placement.Version{}, true, n, 2
		table.Entries[0].Shard = 2 + n
		return f.Step(t0, node("a"), table).Table
	}
	if part(1, 0) != nil || part(2, 0) != nil {
		t.Fatal("a part is taken for a table")
	}
	if part(1, 1) != nil {
		t.Fatal("a part of an older table completes a later one")
	}
	if next := part(2, 1); next == nil || next.Version() != versionOf(1, 2) {
		t.Errorf("got %v, want the table of both parts", next)
	}
}

// TestFollowerCountsPartsOfOneDifference: parts that name different numbers of parts are not
// assembled.
func TestFollowerCountsPartsOfOneDifference(t *testing.T) {
	f := NewFollower(false)
	f.Step(t0, node("a"), TableStatus{versionOf(1, 0)})
	part := func(n, of uint32) *placement.Table {
		table := tableOf(1, 1, node("b"))
		table.From, table.Full, table.Part, table.Parts = placement.Version{}, true, n, of
		table.Entries[0].Shard = 2 + n
		return f.Step(t0, node("a"), table).Table
	}
	for _, p := range [][2]uint32{{0, 2}, {1, 3}, {2, 3}} {
		if next := part(p[0], p[1]); next != nil {
			t.Fatalf("after part %d of %d: got %v, want no table", p[0], p[1], next)
		}
	}
}
