package codegen

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendInts appends v packed as field num, unless it is empty.
func AppendInts[S ~[]T, T signed](b []byte, num int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	b, at := Open(b, num)
	for _, e := range v {
		b = protowire.AppendVarint(b, uint64(int64(e)))
	}
	return Close(b, at)
}

// AppendUints appends v packed as field num, unless it is empty.
func AppendUints[S ~[]T, T unsigned](b []byte, num int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	b, at := Open(b, num)
	for _, e := range v {
		b = protowire.AppendVarint(b, uint64(e))
	}
	return Close(b, at)
}

// AppendBools appends v packed as field num, unless it is empty.
func AppendBools[S ~[]T, T ~bool](b []byte, num int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	b, at := Open(b, num)
	for _, e := range v {
		b = protowire.AppendVarint(b, protowire.EncodeBool(bool(e)))
	}
	return Close(b, at)
}

// AppendFloat32s appends v packed as field num, unless it is empty.
func AppendFloat32s[S ~[]T, T ~float32](b []byte, num int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	b, at := Open(b, num)
	for _, e := range v {
		b = protowire.AppendFixed32(b, math.Float32bits(float32(e)))
	}
	return Close(b, at)
}

// AppendFloat64s appends v packed as field num, unless it is empty.
func AppendFloat64s[S ~[]T, T ~float64](b []byte, num int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	b, at := Open(b, num)
	for _, e := range v {
		b = protowire.AppendFixed64(b, math.Float64bits(float64(e)))
	}
	return Close(b, at)
}

// AppendStrings appends each of v as field num.
func AppendStrings[S ~[]T, T ~string](b []byte, num int, v S) []byte {
	for _, e := range v {
		b = PutString(b, num, e)
	}
	return b
}

// ReadInts appends the numbers of the field to v.
func ReadInts[S ~[]T, T signed](d *Decoder, v *S) {
	if d.typ == protowire.VarintType {
		var e T
		ReadInt(d, &e)
		*v = append(*v, e)
		return
	}
	packed := d.bytes()
	*v = grow(*v, varints(packed))
	for len(packed) > 0 && d.err == nil {
		x, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			d.fail(protowire.ParseError(n))
			return
		}
		e := T(x)
		if uint64(int64(e)) != x {
			d.fail(fmt.Errorf("%d does not fit %T", int64(x), e))
			return
		}
		*v, packed = append(*v, e), packed[n:]
	}
}

// ReadUints appends the numbers of the field to v.
func ReadUints[S ~[]T, T unsigned](d *Decoder, v *S) {
	if d.typ == protowire.VarintType {
		var e T
		ReadUint(d, &e)
		*v = append(*v, e)
		return
	}
	packed := d.bytes()
	*v = grow(*v, varints(packed))
	for len(packed) > 0 && d.err == nil {
		x, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			d.fail(protowire.ParseError(n))
			return
		}
		e := T(x)
		if uint64(e) != x {
			d.fail(fmt.Errorf("%d does not fit %T", x, e))
			return
		}
		*v, packed = append(*v, e), packed[n:]
	}
}

// ReadBools appends the values of the field to v.
func ReadBools[S ~[]T, T ~bool](d *Decoder, v *S) {
	if d.typ == protowire.VarintType {
		var e T
		ReadBool(d, &e)
		*v = append(*v, e)
		return
	}
	packed := d.bytes()
	*v = grow(*v, varints(packed))
	for len(packed) > 0 && d.err == nil {
		x, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			d.fail(protowire.ParseError(n))
			return
		}
		*v, packed = append(*v, T(protowire.DecodeBool(x))), packed[n:]
	}
}

// ReadFloat32s appends the numbers of the field to v.
func ReadFloat32s[S ~[]T, T ~float32](d *Decoder, v *S) {
	if d.typ == protowire.Fixed32Type {
		var e T
		ReadFloat32(d, &e)
		*v = append(*v, e)
		return
	}
	packed := d.bytes()
	*v = grow(*v, len(packed)/4)
	for len(packed) > 0 && d.err == nil {
		x, n := protowire.ConsumeFixed32(packed)
		if n < 0 {
			d.fail(protowire.ParseError(n))
			return
		}
		*v, packed = append(*v, T(math.Float32frombits(x))), packed[n:]
	}
}

// ReadFloat64s appends the numbers of the field to v.
func ReadFloat64s[S ~[]T, T ~float64](d *Decoder, v *S) {
	if d.typ == protowire.Fixed64Type {
		var e T
		ReadFloat64(d, &e)
		*v = append(*v, e)
		return
	}
	packed := d.bytes()
	*v = grow(*v, len(packed)/8)
	for len(packed) > 0 && d.err == nil {
		x, n := protowire.ConsumeFixed64(packed)
		if n < 0 {
			d.fail(protowire.ParseError(n))
			return
		}
		*v, packed = append(*v, T(math.Float64frombits(x))), packed[n:]
	}
}

// ReadStrings appends the string of the field to v.
func ReadStrings[S ~[]T, T ~string](d *Decoder, v *S) {
	var e T
	ReadString(d, &e)
	if d.err == nil {
		*v = append(*v, e)
	}
}

// Fill copies from into the array to, which must be as long.
func Fill[T any](d *Decoder, to, from []T) {
	if d.err != nil {
		return
	}
	if len(from) != len(to) {
		d.fail(fmt.Errorf("%d elements for an array of %d", len(from), len(to)))
		return
	}
	copy(to, from)
}

// ReadByteArray reads the bytes of the field into the array to, which must be as
// long.
func ReadByteArray(d *Decoder, to []byte) { Fill(d, to, d.bytes()) }

// varints is how many varints packed holds: each ends in a byte without its top bit.
func varints(packed []byte) int {
	n := 0
	for _, c := range packed {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// grow makes room for n more elements, and makes nothing out of none.
func grow[S ~[]T, T any](s S, n int) S {
	if n == 0 {
		return s
	}
	return slices.Grow(s, n)
}

// SortedKeys returns the keys of m in their order, so that equal maps have equal
// bytes.
func SortedKeys[M ~map[K]V, K cmp.Ordered, V any](m M) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// SortedFloats returns the entries of m in the order of their keys. No key finds the value of a NaN,
// of which a map may have several: they come first.
func SortedFloats[M ~map[K]V, K ~float32 | ~float64, V any](m M) iter.Seq2[K, V] {
	type entry struct {
		key   K
		value V
	}
	return func(yield func(K, V) bool) {
		entries := make([]entry, 0, len(m))
		for k, v := range m {
			entries = append(entries, entry{k, v})
		}
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
		for _, e := range entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// CheckKeys returns an error where a map of so many keys has fewer distinct ones on the
// wire: one of two values would be lost, and which is chance.
func CheckKeys(distinct, keys int) error {
	if distinct == keys {
		return nil
	}
	return fmt.Errorf("a map of %d keys has only %d distinct encoded keys (use keys with different texts or bytes, times of one time zone, and no unsent fields)", keys, distinct)
}
