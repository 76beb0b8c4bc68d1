package durable

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// MaxStuck is the most numbers that [Numbers] of a command may have.
const MaxStuck = 32

// Numbers are ascending numbers of commands: for each its difference to the one before, as a
// uvarint. It is a string so that commands can be compared.
type Numbers string

// NumbersOf encodes ascending numbers.
func NumbersOf(all []uint64) Numbers {
	var b []byte
	last := uint64(0)
	for _, n := range all {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	return Numbers(b)
}

// Slice returns the numbers. It fails if there are more than [MaxStuck] of them, or if they are
// not ascending.
func (s Numbers) Slice() (all []uint64, err error) {
	b, last := []byte(s), uint64(0)
	all = make([]uint64, 0, min(len(b), MaxStuck))
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || d == 0 || last+d < last || len(all) == MaxStuck {
			return nil, fmt.Errorf("numbers of commands: want at most %d, ascending, as uvarints: %x", MaxStuck, string(s))
		}
		b, last = b[n:], last+d
		all = append(all, last)
	}
	return all, nil
}

// A finished has the numbers of a source for which nobody waits any more: all below a number,
// but for a few commands that are stuck.
type finished struct {
	below uint64
	stuck []uint64 // ascending, all lower than below; not to be changed
}

// has reports whether a number is finished.
func (f finished) has(number uint64) bool {
	if number >= f.below {
		return false
	}
	_, stuck := slices.BinarySearch(f.stuck, number)
	return !stuck
}

// floor is the lowest number that may not be finished.
func (f finished) floor() uint64 {
	if len(f.stuck) > 0 {
		return f.stuck[0]
	}
	return f.below
}

// join returns the numbers that are finished by one of the two, and reports whether they are
// more than those of f.
func (f finished) join(o finished) (both finished, more bool) {
	high, low := f, o
	if o.below > f.below {
		high, low = o, f
	}
	both = high
	if !sameMemory(f.stuck, o.stuck) && slices.ContainsFunc(high.stuck, low.has) {
		both.stuck = slices.DeleteFunc(slices.Clone(high.stuck), low.has)
	}
	return both, both.below != f.below || len(both.stuck) != len(f.stuck)
}

// sameMemory reports whether two lists are the same, and not only equal.
func sameMemory(a, b []uint64) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// stuckNumbers are the numbers that were decoded last. Most commands of a source have the same
// ones, which finished.join recognizes by their memory, without comparing them.
type stuckNumbers struct {
	of  Numbers
	all []uint64 // not to be changed
}

// finished returns the numbers that the command's source has finished.
func (s *stuckNumbers) finished(c *Command) finished {
	if c.Past <= c.Floor {
		return finished{below: c.Floor}
	}
	if c.Stuck != s.of {
		all, err := c.Stuck.Slice()
		if err != nil {
			return finished{below: c.Floor}
		}
		s.of, s.all = c.Stuck, all
	}
	first, _ := slices.BinarySearch(s.all, c.Floor)
	end, _ := slices.BinarySearch(s.all, c.Past)
	return finished{below: c.Past, stuck: s.all[first:end]}
}
