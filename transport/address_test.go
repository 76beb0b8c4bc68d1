package transport_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func TestAddressText(t *testing.T) {
	for _, test := range []struct {
		address transport.Address
		text    string
	}{
		{transport.Address{Name: "web-1", Incarnation: 0xc0ffee}, "web-1#0000000000c0ffee"},
		{transport.Address{Name: "A_z", Incarnation: 1<<64 - 1}, "A_z#ffffffffffffffff"},
	} {
		if got := test.address.String(); got != test.text {
			t.Errorf("String() = %q, want %q", got, test.text)
		}
	}
}

func TestAddressOrder(t *testing.T) {
	sorted := []transport.Address{{}, {Name: "a", Incarnation: 1}, {Name: "a", Incarnation: 1 << 63}, {Name: "b"}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := a.Compare(b), cmp.Compare(i, j); got != want {
				t.Errorf("%v.Compare(%v) = %d, want %d", a, b, got, want)
			}
		}
	}
	if !slices.IsSortedFunc(sorted, transport.Address.Compare) || !sorted[0].IsZero() || sorted[1].IsZero() {
		t.Error("the zero address is not the least, or another address is zero")
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "Z9_-", strings.Repeat("x", transport.MaxNameBytes)} {
		if err := transport.CheckName("node", good); err != nil {
			t.Errorf("CheckName(%q): %v", good, err)
		}
	}
	for _, bad := range []string{"", "a b", "a.b", "*", ">", "a\n", "é", "a\x00", strings.Repeat("x", transport.MaxNameBytes+1)} {
		err := transport.CheckName("node", bad)
		if err == nil || !strings.HasPrefix(err.Error(), "node name") {
			t.Errorf("CheckName(%q): error %v, want one about the node name", bad, err)
		}
	}
}

func ExampleAddress() {
	a := transport.Address{Name: "web-1", Incarnation: 7}
	fmt.Println(a)
	// Output: web-1#0000000000000007
}

// FuzzUnescapeID checks that each word decodes to at most one id, and each id has one word.
func FuzzUnescapeID(f *testing.F) {
	for _, word := range []string{"", "alice", "a=2Eb", "=61dmin", "=C3=A4", "a.b", "=", "=4", "=GG", "=00=FF"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := transport.UnescapeID(s); err == nil && transport.EscapeID(id) != s {
			t.Fatalf("%q is accepted for %q, which is written %q", s, id, transport.EscapeID(id))
		}
		if id, err := transport.UnescapeID(transport.EscapeID(s)); err != nil || id != s {
			t.Fatalf("%q is written %q, which is read as %q, %v", s, transport.EscapeID(s), id, err)
		}
	})
}
