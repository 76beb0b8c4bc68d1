package placement

import (
	"cmp"
	"fmt"
)

// An Epoch numbers the homes of one shard: the term of the coordinator that
// decided in the upper 32 bits, a counter in the lower ones. It travels on every
// envelope, and the higher epoch wins wherever two claims meet. 0 is no epoch.
type Epoch uint64

// MakeEpoch puts an epoch together.
func MakeEpoch(term, counter uint32) Epoch { return Epoch(term)<<32 | Epoch(counter) }

// Term is the number of the coordinator's term that decided this epoch.
func (e Epoch) Term() uint32 { return uint32(e >> 32) }

// Counter counts the decisions about the shard within the term, from 1.
func (e Epoch) Counter() uint32 { return uint32(e) }

// Next returns the lowest epoch above e that a coordinator of term may assign. It is 0 when there
// is none: the term is older than e, or its counter is used up.
func (e Epoch) Next(term uint32) Epoch {
	next := max(e+1, MakeEpoch(term, 1))
	if next.Term() != term {
		return 0
	}
	return next
}

// String is "term.counter".
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.Term(), e.Counter()) }

// A Term is one coordinator's time in office. Without a store its number is the
// coordinator's age number in the cluster (later oldest members are younger, so
// it grows); with a store it is a counter raised by compare-and-set. Two
// coordinators of one number, in two halves of a cluster, are ordered by
// incarnation. The zero Term is before all others.
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

// String is the number, then the incarnation in hexadecimal: "3#00c0ffee00c0ffee".
func (t Term) String() string { return fmt.Sprintf("%d#%016x", t.Number, t.Incarnation) }

// A Version orders all tables of a cluster: by the coordinator's term, then by
// the number of the change within it. The zero Version is that of the empty table.
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

// String is the term and the number: "3#00c0ffee00c0ffee/17".
func (v Version) String() string { return fmt.Sprintf("%v/%d", v.Term, v.Seq) }
