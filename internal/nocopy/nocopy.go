// Package nocopy views strings as bytes and bytes as strings without a copy.
package nocopy

import "unsafe"

// Bytes is the string's bytes. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// String is the bytes as a string. Nobody may change them any more.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
