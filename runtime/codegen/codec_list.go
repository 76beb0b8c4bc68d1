package codegen

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendInts appends the numbers of v, packed, as field num, unless v is empty.
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

// AppendUints appends the numbers of v, packed, as field num, unless v is empty.
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

// AppendBools appends the values of v, packed, as field num, unless v is empty.
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

// AppendFloat32s appends the numbers of v, packed, as field num, unless v is empty.
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

// AppendFloat64s appends the numbers of v, packed, as field num, unless v is empty.
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

// AppendStrings appends each string of v as a separate field num.
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

// Fill copies the elements of a list to an array. The argument to is a slice of the whole array. If
// the list and the array differ in length, d fails.
func Fill[T any](d *Decoder, to, from []T) {
	if d.err != nil {
		return
	}
	if len(from) != len(to) {
		d.fail(fmt.Errorf("%d elements do not fit an array of %d", len(from), len(to)))
		return
	}
	copy(to, from)
}

// ReadByteArray copies the bytes of the current field to an array. The argument to is a slice of
// the whole array. If the field and the array differ in length, d fails.
func ReadByteArray(d *Decoder, to []byte) { Fill(d, to, d.bytes()) }

func varints(packed []byte) int {
	n := 0
	for _, c := range packed {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// grow returns s with capacity for n more elements. A nil s stays nil if n is 0.
func grow[S ~[]T, T any](s S, n int) S {
	if n == 0 {
		return s
	}
	return slices.Grow(s, n)
}

// SortedKeys returns the keys of m in ascending order, so that equal maps have equal encodings.
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

// SortedFloats yields the entries of m in ascending order of their keys. NaN keys come first. It
// yields keys with their values, because a lookup by a NaN key finds nothing.
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

// CheckKeys returns an error if the keys of a map have fewer distinct encoded forms than the map
// has keys. Entries with the same encoded key would overwrite each other in random order.
func CheckKeys(distinct, keys int) error {
	if distinct == keys {
		return nil
	}
	return fmt.Errorf("a map of %d keys has only %d distinct encoded keys (use keys with different texts or bytes, times of one time zone, and no unsent fields)", keys, distinct)
}
