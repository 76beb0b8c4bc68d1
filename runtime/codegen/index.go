package codegen

import (
	"time"

	"github.com/shardgen/shardgen/internal/util/ordered"
)

// An Index names an indexed field.
type Index struct {
	Field string // its name in Go
	// Kind is the field's number and then b, i, s or t for bool, integer, string or time.
	Kind string
}

// AppendStringIndex appends the key of an indexed field to b, which holds a state's keys. A key is
// the field's number and the first 512 bytes of its value. Keys of one field sort like its values.
func AppendStringIndex[T ~string](b []byte, field int, v T) []byte {
	return ordered.AppendString(ordered.AppendField(b, field), v)
}

// AppendIntIndex is [AppendStringIndex] for signed integers.
func AppendIntIndex[T ~int | ~int8 | ~int16 | ~int32 | ~int64](b []byte, field int, v T) []byte {
	return ordered.AppendInt(ordered.AppendField(b, field), v)
}

// AppendUintIndex is [AppendStringIndex] for unsigned integers.
func AppendUintIndex[T ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte, field int, v T) []byte {
	return ordered.AppendUint(ordered.AppendField(b, field), v)
}

// AppendBoolIndex is [AppendStringIndex] for bools.
func AppendBoolIndex[T ~bool](b []byte, field int, v T) []byte {
	return ordered.AppendBool(ordered.AppendField(b, field), v)
}

// AppendTimeIndex is [AppendStringIndex] for times. It ignores their locations.
func AppendTimeIndex(b []byte, field int, v time.Time) []byte {
	return ordered.AppendTime(ordered.AppendField(b, field), v)
}

// IndexedID splits a string that a [Lister] yields into the key of an index, "" if absent, and the
// id.
func IndexedID(key string) (index, id string) {
	n := ordered.SizeOfKey(key)
	return key[:n], key[n:]
}

// IndexPrefix returns the bytes with which all keys of key's field begin.
func IndexPrefix(key []byte) string { return string(key[:ordered.Size(key)]) }
