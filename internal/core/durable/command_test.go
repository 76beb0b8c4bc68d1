package durable

import (
	"testing"
	"time"
)

// TestPaths: a path names one call of one turn, and is the same when the turn runs again.
func TestPaths(t *testing.T) {
	type made struct {
		parent         Path
		target, method string
	}
	calls := []made{
		{"", "a", "add"},
		{"", "b", "add"},
		{"", "a", "get"},
		{"", "aa", "dd"},
		{"", "a", "add"},
		{"", "a", "add"},
		{"parent-of-16-byt", "a", "add"},
		{"another-16-bytes", "a", "add"},
		{"", "parent-of-16-byta", "add"},
		{"", "", "aadd"},
	}
	run := func(order []int) []Path {
		var c Calls
		all := make([]Path, len(calls))
		for _, i := range order {
			all[i] = c.Path(calls[i].parent, calls[i].target, calls[i].method)
		}
		return all
	}
	first := run([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	again := run([]int{9, 8, 7, 0, 6, 4, 3, 5, 2, 1}) // goroutines may be in another order
	seen := map[Path]int{}
	for i, p := range first {
		if other, twice := seen[p]; twice {
			t.Errorf("calls %d and %d have the same path", other, i)
		}
		seen[p] = i
		if p == "" || len(p) != pathBytes {
			t.Errorf("call %d has a path of %d bytes", i, len(p))
		}
		if again[i] != p {
			t.Errorf("call %d has another path when the turn runs again", i)
		}
	}
}

// TestStreamSource: only the source of a stream counts as a stream, and a shard never forgets it.
func TestStreamSource(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		source          Source
		stream, forgets bool
	}{
		"stream":                {Source{Log: StreamSource("paid", "PAID@1")}, true, false},
		"call of its turn":      {Source{Log: StreamSource("paid", "PAID@1"), To: Target{Log: "Cart", Shard: 64}}, false, true},
		"log":                   {Source{Log: "Cart", Shard: 64}, false, false},
		"process":               {Source{Incarnation: 7}, false, true},
		"key":                   {Source{Incarnation: 1, Log: "abcd"}, false, true},
		"partition of a stream": {Source{Log: StreamSource("a", "b:c"), Shard: 3}, true, false},
	} {
		if got := c.source.Stream(); got != c.stream {
			t.Errorf("%s: got stream %t, want %t", name, got, c.stream)
		}
		if got := c.source.silent(now, now.Add(1), now.Add(1)); got != c.forgets {
			t.Errorf("%s: got forgotten %t, want %t", name, got, c.forgets)
		}
	}
}
