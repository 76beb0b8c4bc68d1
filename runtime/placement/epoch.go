package placement

import (
	"cmp"
	"fmt"
)

// An Epoch numbers the homes of one shard. Its upper 32 bits are the term of the coordinator that
// chose the home, and its lower 32 bits are a counter. If two members claim a shard, the one with
// the higher epoch is its home. So that this can be decided, every envelope carries the epoch. 0
// means no epoch.
type Epoch uint64

// MakeEpoch returns the epoch with the given term and counter.
func MakeEpoch(term, counter uint32) Epoch { return Epoch(term)<<32 | Epoch(counter) }

// Term returns the term of the coordinator that chose the home.
func (e Epoch) Term() uint32 { return uint32(e >> 32) }

// Counter returns the number of the decision about the shard within the term, from 1.
func (e Epoch) Counter() uint32 { return uint32(e) }

// Next returns the lowest epoch above e that the coordinator of the given term may assign. It
// returns 0 if no such epoch exists: term is lower than the term of e, or the counter is used up.
func (e Epoch) Next(term uint32) Epoch {
	next := max(e+1, MakeEpoch(term, 1))
	if next.Term() != term {
		return 0
	}
	return next
}

// String returns "term.counter".
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.Term(), e.Counter()) }

// A Term is one coordinator's time in office. With a store its number is a counter raised by
// compare-and-set. Without a store the number is the age number of the coordinator's member, the
// oldest. The number grows with each term, because each later oldest member is younger.
// Coordinators with the same number, in two halves of a split cluster, are ordered by incarnation.
// The zero Term is before all others.
type Term struct {
	Number      uint32
	Incarnation uint64
}

// Compare orders terms by number, then incarnation.
func (t Term) Compare(u Term) int {
	if c := cmp.Compare(t.Number, u.Number); c != 0 {
		return c
	}
	return cmp.Compare(t.Incarnation, u.Incarnation)
}

// String returns the number and the incarnation in hexadecimal: "3#00c0ffee00c0ffee".
func (t Term) String() string { return fmt.Sprintf("%d#%016x", t.Number, t.Incarnation) }

// A Version orders all tables of a cluster: by the coordinator's term, then by the number of the
// change within that term. The empty table has the zero Version.
type Version struct {
	Term Term
	Seq  uint64
}

// Compare orders versions by term, then by number.
func (v Version) Compare(w Version) int {
	if c := v.Term.Compare(w.Term); c != 0 {
		return c
	}
	return cmp.Compare(v.Seq, w.Seq)
}

// String returns the term and the number: "3#00c0ffee00c0ffee/17".
func (v Version) String() string { return fmt.Sprintf("%v/%d", v.Term, v.Seq) }
