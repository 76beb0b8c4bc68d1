package membership

import (
	"math/bits"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A SeenSet tells which members have one version of the state: bit i of it
// stands for Members[i] of that version. It holds a bit for every member and is
// a value: methods return new ones.
type SeenSet []uint64

func newSeenSet(members int) SeenSet { return make(SeenSet, (members+63)/64) }

// fullSeenSet holds all members.
func fullSeenSet(members int) SeenSet {
	s := newSeenSet(members)
	for i := range members {
		s.add(i)
	}
	return s
}

// add changes s itself: for those who have just made it.
func (s SeenSet) add(i int) { s[i/64] |= 1 << (i % 64) }

// Has tells whether the i-th member is in the set.
func (s SeenSet) Has(i int) bool { return i >= 0 && i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

// Count returns how many members are in the set.
func (s SeenSet) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// with returns s and the i-th member.
func (s SeenSet) with(i int) SeenSet {
	s = slices.Clone(s)
	s.add(i)
	return s
}

// union returns what is in either; both are of one version.
func (s SeenSet) union(o SeenSet) SeenSet {
	s = slices.Clone(s)
	for i := range min(len(s), len(o)) {
		s[i] |= o[i]
	}
	return s
}

// missing returns the first of want that is not in s, or -1.
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

// common counts the members that are in both.
func (s SeenSet) common(o SeenSet) int {
	n := 0
	for i := range min(len(s), len(o)) {
		n += bits.OnesCount64(s[i] & o[i])
	}
	return n
}

// fits tells whether s is a set of so many members.
func (s SeenSet) fits(members int) bool {
	if len(s) != (members+63)/64 {
		return false
	}
	return members%64 == 0 || s[len(s)-1]>>(members%64) == 0
}

// movedTo is the set as one of other members: those in both are kept.
func (s SeenSet) movedTo(from, to []Member) SeenSet {
	moved := newSeenSet(len(to))
	for i, j := 0, 0; i < len(from) && j < len(to); {
		switch c := from[i].Compare(to[j].Address); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if s.Has(i) {
				moved.add(j)
			}
			i++
			j++
		}
	}
	return moved
}

// namesOf are the names of the members in the set.
func (s SeenSet) namesOf(members []Member) string {
	var nodes []transport.Address
	for i, r := range members {
		if s.Has(i) {
			nodes = append(nodes, r.Address)
		}
	}
	return names(nodes)
}
