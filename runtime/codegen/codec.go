package codegen

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The codec helpers write and read the protobuf wire format. The form of each Go type on
// the wire, and the value that arrives:
//
//   - Integers are varints as protobuf's int64 and uint64; time.Duration is one
//     too. A number that does not fit the reader's type is an error, not cut.
//   - A string is a string, also where it is not valid UTF-8; []byte and [N]byte
//     are bytes.
//   - A slice is a repeated field, packed for numbers and bools; an array too. A
//     map is a map, in the order of its keys if they are numbers or strings. Where protobuf has no such thing (a slice of slices, a map of
//     pointers) each element is a message with the value in field 1.
//   - A struct is a message of its fields, numbered from 1 in their order.
//   - A pointer is an optional field: nil stays nil, and a pointer to zero a
//     pointer to zero.
//   - time.Time is shaped as google.protobuf.Timestamp; it arrives in UTC and
//     without a monotonic reading, and the zero time as the zero time.
//   - A protobuf message is itself; a type with MarshalText and UnmarshalText is
//     a string; one with MarshalBinary and UnmarshalBinary is bytes.
//
// An empty slice arrives as nil and a nil map as an empty one: both append to a slice and
// assignment to a map work on the value that arrives. Arguments and results of a local
// call are copied (Clone…) so that they arrive the same.
//
// Append… leaves out a value that is zero, as protobuf does; Put… never does, for
// elements and for targets of pointers.

// signed is every signed integer type.
type signed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64
}

// unsigned is every unsigned integer type with a portable meaning.
type unsigned interface {
	~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func tag(b []byte, num int, typ protowire.Type) []byte {
	return protowire.AppendTag(b, protowire.Number(num), typ)
}

// AppendInt appends v as field num, unless it is zero.
func AppendInt[T signed](b []byte, num int, v T) []byte {
	if v == 0 {
		return b
	}
	return PutInt(b, num, v)
}

// PutInt appends v as field num.
func PutInt[T signed](b []byte, num int, v T) []byte {
	return protowire.AppendVarint(tag(b, num, protowire.VarintType), uint64(int64(v)))
}

// AppendUint appends v as field num, unless it is zero.
func AppendUint[T unsigned](b []byte, num int, v T) []byte {
	if v == 0 {
		return b
	}
	return PutUint(b, num, v)
}

// PutUint appends v as field num.
func PutUint[T unsigned](b []byte, num int, v T) []byte {
	return protowire.AppendVarint(tag(b, num, protowire.VarintType), uint64(v))
}

// AppendBool appends v as field num, unless it is false.
func AppendBool[T ~bool](b []byte, num int, v T) []byte {
	if !v {
		return b
	}
	return PutBool(b, num, v)
}

// PutBool appends v as field num.
func PutBool[T ~bool](b []byte, num int, v T) []byte {
	return protowire.AppendVarint(tag(b, num, protowire.VarintType), protowire.EncodeBool(bool(v)))
}

// AppendFloat32 appends v as field num, unless it is zero; minus zero is not.
func AppendFloat32[T ~float32](b []byte, num int, v T) []byte {
	if math.Float32bits(float32(v)) == 0 {
		return b
	}
	return PutFloat32(b, num, v)
}

// PutFloat32 appends v as field num.
func PutFloat32[T ~float32](b []byte, num int, v T) []byte {
	return protowire.AppendFixed32(tag(b, num, protowire.Fixed32Type), math.Float32bits(float32(v)))
}

// AppendFloat64 appends v as field num, unless it is zero; minus zero is not.
func AppendFloat64[T ~float64](b []byte, num int, v T) []byte {
	if math.Float64bits(float64(v)) == 0 {
		return b
	}
	return PutFloat64(b, num, v)
}

// PutFloat64 appends v as field num.
func PutFloat64[T ~float64](b []byte, num int, v T) []byte {
	return protowire.AppendFixed64(tag(b, num, protowire.Fixed64Type), math.Float64bits(float64(v)))
}

// AppendString appends v as field num, unless it is empty.
func AppendString[T ~string](b []byte, num int, v T) []byte {
	if v == "" {
		return b
	}
	return PutString(b, num, v)
}

// PutString appends v as field num.
func PutString[T ~string](b []byte, num int, v T) []byte {
	return protowire.AppendString(tag(b, num, protowire.BytesType), string(v))
}

// AppendBytes appends v as field num, unless it is empty.
func AppendBytes[T ~[]byte](b []byte, num int, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return PutBytes(b, num, v)
}

// PutBytes appends v as field num.
func PutBytes[T ~[]byte](b []byte, num int, v T) []byte {
	return protowire.AppendBytes(tag(b, num, protowire.BytesType), v)
}

// Open begins a message as field num. All that is appended until [Close], which takes the
// returned position, is its content.
func Open(b []byte, num int) ([]byte, int) {
	b = append(tag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

// Close ends the message that began at the position.
func Close(b []byte, at int) []byte {
	size := uint64(len(b) - at)
	if size < 0x80 {
		b[at-1] = byte(size)
		return b
	}
	// The length wants more than the byte that Open kept: move the content on.
	extra := protowire.SizeVarint(size) - 1
	var room [9]byte
	b = append(b, room[:extra]...)
	copy(b[at+extra:], b[at:])
	protowire.AppendVarint(b[:at-1], size)
	return b
}
