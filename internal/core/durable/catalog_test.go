package durable

import (
	"fmt"
	"testing"
)

// BenchmarkEdit measures an edit of one key in each leaf of a large shard.
func BenchmarkEdit(b *testing.B) {
	const n, every = 400_000, 500
	keys := make([]string, n)
	for i := range keys {
		keys[i] = idKey(fmt.Sprintf("entity-%07d", i))
	}
	c := newCatalog(Limits{}.withDefaults().LeafBytes)
	parts := cutLeaves(keys, c.limit)
	for i, part := range parts {
		l := leaf{number: uint64(i + 1), bytes: sizeOf(part)}
		if i > 0 {
			l.first = part[0]
		}
		c.leaves = append(c.leaves, l)
	}
	b.ReportAllocs()
	for b.Loop() {
		ed := &edit{there: map[string]bool{}, keys: map[int][]string{}}
		for i := 0; i < n; i += every {
			ed.there[keys[i]+"-"] = true
		}
		for i, part := range parts {
			ed.reads, ed.keys[i] = append(ed.reads, i), part
		}
		if changes := ed.apply(&c, 2); len(changes) < len(parts) {
			b.Fatalf("%d leaves, want at least %d", len(changes), len(parts))
		}
	}
}
