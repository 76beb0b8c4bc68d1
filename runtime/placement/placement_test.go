package placement

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

var (
	a = transport.Address{Name: "a", Incarnation: 1}
	b = transport.Address{Name: "b", Incarnation: 2}
)

func TestShardOf(t *testing.T) {
	for _, c := range []struct {
		hash   uint64
		shards uint32
		want   uint32
	}{
		{0, 1, 1},
		{math.MaxUint64, 1, 1},
		{0, 256, 256},
		{math.MaxUint64, 256, 511},
		{1 << 63, 2, 3},
		{1<<63 - 1, 2, 2},
		{0xab << 56, 256, 256 + 0xab},
		{0xab << 56, 512, 2 * (256 + 0xab)}, // shard s splits into 2s and 2s+1
		{0xab<<56 | 1<<55, 512, 2*(256+0xab) + 1},
	} {
		if got := ShardOf(c.hash, c.shards); got != c.want {
			t.Errorf("ShardOf(%#x, %d) = %d, want %d", c.hash, c.shards, got, c.want)
		}
	}
}

func TestCheckShards(t *testing.T) {
	for n, good := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 3: false, 256: true, 1 << 16: true, 1 << 17: false} {
		if err := CheckShards(n); (err == nil) != good {
			t.Errorf("CheckShards(%d) = %v, want good=%v", n, err, good)
		}
	}
}

func TestEpochNext(t *testing.T) {
	for _, c := range []struct {
		e    Epoch
		term uint32
		want Epoch
	}{
		{0, 0, 1},
		{0, 3, MakeEpoch(3, 1)},
		{MakeEpoch(3, 1), 3, MakeEpoch(3, 2)},
		{MakeEpoch(2, 9), 3, MakeEpoch(3, 1)},
		{MakeEpoch(4, 1), 3, 0},
		{MakeEpoch(3, math.MaxUint32), 3, 0},
		{MakeEpoch(3, math.MaxUint32), 4, MakeEpoch(4, 1)},
	} {
		if got := c.e.Next(c.term); got != c.want {
			t.Errorf("(%v).Next(%d) = %v, want %v", c.e, c.term, got, c.want)
		}
	}
}

func version(term uint32, seq uint64) Version { return Version{Term{term, 7}, seq} }

func entry(kind string, shard uint32, home transport.Address, e Epoch) Entry {
	return Entry{ShardID{kind, shard}, home, e}
}

func apply(t *testing.T, old *Table, d Diff) *Table {
	t.Helper()
	next, err := old.Apply(d)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestApplyAndDiff(t *testing.T) {
	e := MakeEpoch(1, 1)
	one := apply(t, nil, Diff{To: version(1, 1), Full: true, Entries: []Entry{
		entry("Cart", 4, a, e), entry("Cart", 6, b, e), entry("Stock", 1, b, e),
	}})
	two := apply(t, one, Diff{From: version(1, 1), To: version(1, 2), Gone: []transport.Address{b}, Entries: []Entry{
		entry("Cart", 5, a, e), entry("Cart", 6, a, e+1),
	}})
	if got, _ := one.Lookup(ShardID{"Cart", 6}); got.Home != b {
		t.Errorf("the old table changed: %v", got)
	}
	if got, _ := two.Lookup(ShardID{"Cart", 6}); got != entry("Cart", 6, a, e+1) {
		t.Errorf("Cart/6 is %v", got)
	}
	for _, s := range []ShardID{{"Cart", 7}, {"Cart", 3}, {"Cart", 8}, {"Cart", 0}, {"Order", 1}} {
		if got, ok := two.Lookup(s); ok {
			t.Errorf("Lookup(%v) = %v, want none", s, got)
		}
	}
	if one.Type("Stock") != two.Type("Stock") {
		t.Error("a type without a change was copied")
	}
	d := one.Diff(two)
	if got := apply(t, one, d).Full(); !equal(got, two.Full()) {
		t.Errorf("one + Diff = %v, want %v", got, two.Full())
	}
	if len(d.Entries) != 2 || len(d.Gone) != 1 || d.Full {
		t.Errorf("Diff = %+v, want the two changed entries and b gone", d)
	}
	if got := apply(t, nil, two.Full()).Full(); !equal(got, two.Full()) {
		t.Errorf("full = %v, want %v", got, two.Full())
	}
	if n := two.Len(); n != 4 {
		t.Errorf("Len = %d, want 4", n)
	}
	other := apply(t, two, Diff{To: version(2, 1), Full: true})
	if d := two.Diff(other); !d.Full {
		t.Errorf("the diff between terms is %+v, want a full one", d)
	}
}

func equal(x, y Diff) bool {
	return x.To == y.To && slices.Equal(x.Entries, y.Entries) && slices.Equal(x.Gone, y.Gone)
}

func TestApplyRefuses(t *testing.T) {
	e := MakeEpoch(1, 2)
	have := apply(t, nil, Diff{To: version(1, 5), Full: true, Entries: []Entry{entry("Cart", 4, a, e)}})
	for name, d := range map[string]Diff{
		"gap":              {From: version(1, 4), To: version(1, 6)},
		"other term":       {From: version(2, 5), To: version(2, 6)},
		"older full":       {Full: true, To: version(1, 4)},
		"same full":        {Full: true, To: version(1, 5)},
		"backward":         {From: version(1, 5), To: version(1, 5)},
		"other count":      {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Cart", 8, a, e)}},
		"no type":          {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("", 4, a, e)}},
		"no number":        {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Cart", 0, a, e)}},
		"no epoch":         {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Cart", 5, a, 0)}},
		"lower epoch":      {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Cart", 4, a, e-1)}},
		"too many shards":  {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Big", 1<<31, a, e)}},
		"too many, barely": {From: version(1, 5), To: version(1, 6), Entries: []Entry{entry("Big", 2*MaxShards, a, e)}},
	} {
		if _, err := have.Apply(d); err == nil {
			t.Errorf("%s: applied, want an error", name)
		}
	}
	if _, err := have.Apply(Diff{From: version(1, 7), To: version(1, 8)}); !errors.Is(err, errGap) {
		t.Errorf("a gap gives %v, want errGap", err)
	}
}

func TestGoneIsBounded(t *testing.T) {
	var table *Table
	for i := range uint64(200) {
		table = apply(t, table, Diff{From: table.Version(), To: version(1, i+1), Gone: []transport.Address{{Name: "x", Incarnation: i}}})
	}
	gone := table.Gone()
	if len(gone) != maxGone || gone[len(gone)-1].Incarnation != 199 {
		t.Errorf("%d gone, last %v; want %d, last x#199", len(gone), gone[len(gone)-1], maxGone)
	}
}

func BenchmarkLookup(b *testing.B) {
	table, _ := (*Table)(nil).Apply(Diff{To: version(1, 1), Full: true, Entries: []Entry{entry("Cart", 300, a, 1)}})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := table.Lookup(ShardID{"Cart", 300}); !ok {
			b.Fatal("no entry")
		}
	}
}
