package gossip

import (
	"math/bits"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A SeenSet is the set of members that have seen one version of the state: bit i stands for
// Members[i] of the version. It has a bit for every member, and is a value: all methods but Add
// return new sets.
type SeenSet []uint64

// NewSeenSet returns an empty set for a number of members.
func NewSeenSet(members int) SeenSet { return make(SeenSet, (members+63)/64) }

// FullSeenSet returns the set of all members.
func FullSeenSet(members int) SeenSet {
	s := NewSeenSet(members)
	for i := range members {
		s.Add(i)
	}
	return s
}

// Add adds the i-th member. It changes s in place, so it must not be called once s is shared.
func (s SeenSet) Add(i int) { s[i/64] |= 1 << (i % 64) }

// Has reports whether the i-th member is in the set.
func (s SeenSet) Has(i int) bool { return i >= 0 && i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

// Count returns how many members are in the set.
func (s SeenSet) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s SeenSet) with(i int) SeenSet {
	s = slices.Clone(s)
	s.Add(i)
	return s
}

// union returns the members that are in s or in o. Both sets must belong to one version.
func (s SeenSet) union(o SeenSet) SeenSet {
	s = slices.Clone(s)
	for i := range min(len(s), len(o)) {
		s[i] |= o[i]
	}
	return s
}

func (s SeenSet) missing(want SeenSet) int {
	for i, w := range want {
		if i < len(s) {
			w &^= s[i]
		}
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Common returns the number of members that are in both sets.
func (s SeenSet) Common(o SeenSet) int {
	n := 0
	for i := range min(len(s), len(o)) {
		n += bits.OnesCount64(s[i] & o[i])
	}
	return n
}

// Fits reports whether s is a valid set for that number of members.
func (s SeenSet) Fits(members int) bool {
	if len(s) != (members+63)/64 {
		return false
	}
	return members%64 == 0 || s[len(s)-1]>>(members%64) == 0
}

func (s SeenSet) movedTo(from, to []Member) SeenSet {
	moved := NewSeenSet(len(to))
	for i, j := 0, 0; i < len(from) && j < len(to); {
		switch c := from[i].Compare(to[j].Address); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if s.Has(i) {
				moved.Add(j)
			}
			i++
			j++
		}
	}
	return moved
}

func (s SeenSet) namesOf(members []Member) string {
	var nodes []transport.Address
	for i, r := range members {
		if s.Has(i) {
			nodes = append(nodes, r.Address)
		}
	}
	return Names(nodes)
}
