// Package ordered encodes values so that the bytes have the order of the values, and so that each
// value says where it ends. Values of different kinds can be told apart, but have no useful order.
package ordered

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"time"
)

// The first byte of a value. For a number it is numberTag, plus or minus the count of bytes that
// follow.
const (
	stringTag = 0x01
	timeTag   = 0x02
	numberTag = 0x80
)

// MaxString is the number of bytes after which a longer string is cut.
const MaxString = 512

const timeBytes = 12

// AppendString appends the first [MaxString] bytes of v.
func AppendString[T ~string](b []byte, v T) []byte {
	b = append(b, stringTag)
	for _, c := range []byte(v[:min(len(v), MaxString)]) {
		if b = append(b, c); c == 0 { // a single 0 is the end
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 0)
}

// AppendInt appends v, in one byte if it is 0 and in two to nine otherwise.
func AppendInt[T ~int | ~int8 | ~int16 | ~int32 | ~int64](b []byte, v T) []byte {
	if v >= 0 {
		return AppendUint(b, uint64(v))
	}
	n := size(uint64(-(v + 1)) + 1) // -v may overflow
	b = append(b, byte(numberTag-n))
	return appendLow(b, uint64(v), n)
}

// AppendUint appends v as [AppendInt] does.
func AppendUint[T ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte, v T) []byte {
	n := size(uint64(v))
	b = append(b, byte(numberTag+n))
	return appendLow(b, uint64(v), n)
}

// AppendBool appends 0 or 1.
func AppendBool[T ~bool](b []byte, v T) []byte {
	if v {
		return AppendUint(b, uint(1))
	}
	return AppendUint(b, uint(0))
}

// AppendTime appends the moment of v, to the nanosecond. Its location does not count.
func AppendTime(b []byte, v time.Time) []byte {
	b = append(b, timeTag)
	b = binary.BigEndian.AppendUint64(b, uint64(v.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(b, uint32(v.Nanosecond()))
}

func size(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// appendLow appends the n low bytes of v.
func appendLow(b []byte, v uint64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

// Size returns the length of the value at the beginning of s, or 0 if there is none.
func Size[T string | []byte](s T) int {
	if len(s) == 0 {
		return 0
	}
	n := 0
	switch tag := int(s[0]); {
	case tag == stringTag:
		return sizeOfString(string(s))
	case tag == timeTag:
		n = 1 + timeBytes
	case numberTag-8 <= tag && tag < numberTag:
		n = 1 + numberTag - tag
	case numberTag <= tag && tag <= numberTag+8:
		n = 1 + tag - numberTag
	}
	if n > len(s) {
		return 0
	}
	return n
}

func sizeOfString(s string) int {
	for i := 1; ; i += 2 {
		zero := strings.IndexByte(s[i:], 0)
		if i += zero; zero < 0 || i+1 >= len(s) {
			return 0
		}
		if s[i+1] == 0 {
			return i + 2
		}
	}
}

// A key is a field's number followed by a value of the field.

// AppendField appends the number with which a key begins.
func AppendField(b []byte, number int) []byte { return AppendUint(b, uint(number)) }

// SizeOfKey returns the length of the key at the beginning of s, or 0 if there is none.
func SizeOfKey[T string | []byte](s T) int {
	field := Size(s)
	if field == 0 {
		return 0
	}
	value := Size(s[field:])
	if value == 0 {
		return 0
	}
	return field + value
}
