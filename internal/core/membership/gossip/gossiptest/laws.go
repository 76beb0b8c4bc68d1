package gossiptest

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
)

// CheckMonotonic returns an error if any value decreased from a to merged, a later state of the
// same node.
func CheckMonotonic(a, merged *gossip.State) error {
	if merged.UpCounter < a.UpCounter || merged.RemovalCounter < a.RemovalCounter {
		return fmt.Errorf("a counter decreased: from %v to %v", Normal(a), Normal(merged))
	}
	for _, r := range a.Members {
		m, ok := merged.Member(r.Address)
		if !ok && !merged.Removed(r.Address) {
			return fmt.Errorf("%v was lost: from %v to %v", r, Normal(a), Normal(merged))
		}
		if ok && (m.Status < r.Status || r.Fenced && !m.Fenced) {
			return fmt.Errorf("member %v went back to %v", r, m)
		}
	}
	for _, s := range a.Tombstones {
		if _, ok := merged.Member(s.Node); ok {
			return fmt.Errorf("removed node %v came back", s.Node)
		}
	}
	for _, row := range a.Rows {
		i := slices.IndexFunc(merged.Rows, func(r gossip.ObserverRow) bool { return r.Observer == row.Observer })
		if i >= 0 && merged.Rows[i].Version < row.Version {
			return fmt.Errorf("row %v went back to %v", row, merged.Rows[i])
		}
	}
	if _, o := a.Join(merged); o != gossip.Same && o != gossip.Before {
		return fmt.Errorf("merging made an older version: %v: from %v to %v", o, a.Version, merged.Version)
	}
	return nil
}

// CheckMerge returns an error unless merging the three states of one cluster obeys the laws of a
// join semilattice. It also returns the relation of a to b.
func CheckMerge(a, b, c *gossip.State) (gossip.Ordering, error) {
	ab, order := a.Join(b)
	full, _ := gossip.JoinInFull(a, b)
	for _, law := range []struct {
		name      string
		got, want *gossip.State
	}{
		{"commutative", b.Merge(a), ab},
		{"associative", ab.Merge(c), a.Merge(b.Merge(c))},
		{"the same without shortcuts", full, ab},
		{"idempotent", a.Merge(a), a},
		{"absorbing", ab.Merge(a), ab},
	} {
		if got, want := Normal(law.got), Normal(law.want); got != want {
			return order, fmt.Errorf("merge is not %s:\na    %s\nb    %s\nc    %s\ngot  %s\nwant %s", law.name, Normal(a), Normal(b), Normal(c), got, want)
		}
	}
	return order, CheckMonotonic(a, ab)
}
