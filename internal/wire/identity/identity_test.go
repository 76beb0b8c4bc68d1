package identity

import (
	"math"
	"testing"
)

func TestClassOfIncarnation(t *testing.T) {
	for _, c := range []Class{Member, Client, Reader, Operator} {
		for _, n := range []uint64{0, 1, math.MaxUint64} {
			if got := Of(Mark(c, n)); got != c {
				t.Errorf("%v marked on %x is read as %v", c, n, got)
			}
		}
		if got := Of(New(c)); got != c {
			t.Errorf("a new %v is a %v", c, got)
		}
	}
	names := [...]string{"member", "client", "reader", "operator"}
	for c, want := range names {
		if got := Class(c).String(); got != want {
			t.Errorf("class %d is called %q, want %q", c, got, want)
		}
	}
	if a, b := Mark(Client, 7), Mark(Member, 7); a == b {
		t.Error("two classes share an incarnation")
	}
}
