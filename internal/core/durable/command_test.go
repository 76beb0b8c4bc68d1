package durable

import "testing"

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
