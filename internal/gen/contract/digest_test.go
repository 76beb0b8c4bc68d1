package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// digested is a contract with two kinds, one of which uses structs.
const digested = head + `1
` + note + `enum Color 1 Red
error ErrShut
kind Box
kind Box hash xxh64
kind Box id string
kind Box method Open
kind Box shards 256
kind Cart
kind Cart hash xxh64
kind Cart id string
kind Cart method Add
kind Cart method Add arg 1 lines []Page[Line]
kind Cart method Old retired
kind Cart shards 256
type Line
type Line field 1 Price *Price
type Other
type Other field 1 N int64
type Page[Line]
type Page[Line] field 1 Lines []Line
type Price
type Price field 1 Cents int64
`

// TestDigest checks that a kind's digest changes with everything that its callers and hosts must
// agree on, and with nothing else.
func TestDigest(t *testing.T) {
	of := func(edit ...string) (cart, box string) {
		c, problems := read([]byte(strings.NewReplacer(edit...).Replace(digested)))
		require.Empty(t, problems)
		return Digest(c, "Cart"), Digest(c, "Box")
	}
	cart, box := of()
	require.Len(t, cart, 2*digestLen)
	require.NotEqual(t, cart, box)
	for _, tt := range []struct {
		name, old, now string
		cart, box      bool // its hash changes
	}{
		{"a method of the kind", "method Open", "method Shut", false, true},
		{"an argument's type", "arg 1 lines []Page[Line]", "arg 1 lines []Line", true, false},
		{"an argument's number", "arg 1 lines", "arg 2 lines", true, false},
		{"a field of a struct that is reached through two others", "Cents int64", "Cents int32", true, false},
		{"a field of a struct that is not reached", "N int64", "N int32", false, false},
		{"an error", "ErrShut", "ErrOpen", true, true},
		{"an enum", "Color 1", "Color 2", true, true},
		{"a retired method", "method Old retired", "method Older retired", false, false},
		{"a method that is called one way", "method Add\n", "method Add tell\n", true, false},
		{"the number of shards", "Cart shards 256", "Cart shards 512", true, false},
	} {
		c, b := of(tt.old, tt.now)
		require.Equal(t, tt.cart, c != cart, "%s: Cart", tt.name)
		require.Equal(t, tt.box, b != box, "%s: Box", tt.name)
	}
	none, _ := read([]byte(digested))
	require.Empty(t, Digest(none, "Nothing"))
}

// TestMentions checks that mentions compares whole names, not parts of names.
func TestMentions(t *testing.T) {
	for typ, want := range map[string]bool{
		"Line": true, "[]Line": true, "map[string]*Line": true, "Page[Line]": true, "Lines": false, "a.b/c.Line": false, "Line.X": false, "OnLine,Line": true, "": false,
	} {
		require.Equal(t, want, mentions(typ, "Line"), typ)
	}
}
