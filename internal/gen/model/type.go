package model

import (
	"slices"
	"strconv"
	"strings"
)

// Shape is the form of a type on the wire.
type Shape int

// The shapes of types. Shapes up to Proto are encoded by functions of the runtime; the
// others have generated functions.
const (
	Bool Shape = iota
	Int
	Uint
	Float32
	Float64
	String
	Bytes     // []byte
	Time      // time.Time
	Text      // MarshalText and UnmarshalText
	Binary    // MarshalBinary and UnmarshalBinary
	Gob       // GobEncode and GobDecode
	Proto     // a pointer to a generated protobuf message
	ByteArray // [N]byte
	Slice
	Array
	Map
	Pointer
	Struct
	Oneof // an interface with a closed set of implementations
)

// A Type is a type that crosses the wire.
type Type struct {
	Shape Shape
	Expr  *Expr  // as Go code writes it
	Basic string // of Int and Uint: int8 to int64, uint8 to uint64
	// Constants are the names that the package of a type gives to its values.
	Constants []Constant
	Len       int64  // of Array and ByteArray
	Name      string // part of the names of its functions: "SKULineMap"
	Elem      *Type  // of Slice, Array, Map, Pointer
	Key       *Type  // of Map
	// Fields of a Struct cross; Skipped fields do not, and arrive as zero.
	Fields  []Field
	Skipped []Skipped
	Retired []int // numbers of a Struct's former fields, if events hold it
	Zero    Zero
	// Own are the names of all fields of a Struct that the package declares, in
	// order; nil where generated code cannot name them all.
	Own []string
	// Cases are the types that a Oneof may hold.
	Cases []Case
	// IDField is the field tagged id of a Struct that may be a message struct; otherwise
	// "".
	IDField string

	// Recursive means that a value may contain values of the same type, to any
	// depth.
	Recursive bool
	// Fallible means that encoding may refuse a value.
	Fallible bool
	// Plain means that a copy by assignment shares no data with the original and equals the decoded
	// value.
	Plain bool
	// CloneFallible means that copying may refuse a value.
	CloneFallible bool
	// NeedsInit means that a value absent on the wire contains a map, which must be made because it
	// is never nil.
	NeedsInit bool
}

// A Constant is a name for a value of a type.
type Constant struct {
	Name  string
	Value string // a number, true, false, or a quoted string without spaces
}

// QuoteValue is the value of a string constant.
func QuoteValue(s string) string { return strings.ReplaceAll(strconv.QuoteToASCII(s), " ", `\x20`) }

// A Case is one of the types that implement an interface.
type Case struct {
	Name   string // of the type, without its package
	Number int    // from 1
	Type   *Type  // of the value that is sent
	// Pointer means that pointers to Type implement the interface, and values of it
	// do not.
	Pointer bool
}

// Expr is the type of the values that implement the interface.
func (c *Case) Expr() *Expr {
	if c.Pointer {
		return &Expr{Op: PointerTo, Elem: c.Type.Expr}
	}
	return c.Type.Expr
}

// CanBeNil reports whether such a value may be a nil pointer.
func (c *Case) CanBeNil() bool { return c.Pointer || c.Type.Shape == Proto }

// A Skipped field is not sent.
type Skipped struct {
	Name string
	Expr *Expr // nil where the type cannot be written in generated code
	Zero Zero
}

// Zero is the Go notation of a type's zero value.
type Zero int

// The zero values.
const (
	ZeroNumber Zero = iota // 0
	ZeroString             // ""
	ZeroBool               // false
	ZeroNil                // nil
	ZeroBraces             // T{}
)

// Scalar reports whether a field of the type is one number or bool, which
// slices pack.
func (t *Type) Scalar() bool { return t.Shape <= Float64 }

// Packed reports whether t is a slice or array of numbers or bools.
func (t *Type) Packed() bool {
	return (t.Shape == Slice || t.Shape == Array) && t.Elem.Scalar()
}

// Listed reports whether t is a slice that one helper of the runtime encodes.
func (t *Type) Listed() bool {
	return t.Shape == Slice && (t.Elem.Scalar() || t.Elem.Shape == String)
}

// OneField reports whether each value of t is exactly one field on the wire, so
// that repeating the field makes a list.
func (t *Type) OneField() bool {
	switch t.Shape {
	case Slice, Map, Pointer:
		return false
	case Array:
		return !t.Packed()
	default:
		return true
	}
}

// Message returns the struct, or the interface with cases, if a field of type t holds at most one
// of it: t itself, or the target of the pointer t. It returns nil for every other type.
func (t *Type) Message() *Type {
	switch {
	case t.Shape == Struct || t.Shape == Oneof:
		return t
	case t.Shape == Pointer && (t.Elem.Shape == Struct || t.Elem.Shape == Oneof):
		return t.Elem
	}
	return nil
}

// UnknownType stands for a case of the type that a program does not know.
func (t *Type) UnknownType() string { return "unknown" + t.Name }

// ChecksKeys reports whether two different keys of a map may travel as the same key:
// they have the same text or bytes, they are the same instant in two time zones, or they
// differ in a field that is not sent.
func (t *Type) ChecksKeys() bool { return t.Shape == Map && ambiguous(t.Key) }

// ambiguous reports whether two different values of a key's type may travel as the same value.
func ambiguous(t *Type) bool {
	switch t.Shape {
	case Text, Binary, Gob:
		return !t.Plain
	case Time:
		return true
	case Array:
		return ambiguous(t.Elem)
	case Struct:
		return len(t.Skipped) > 0 || slices.ContainsFunc(t.Fields, func(f Field) bool { return ambiguous(f.Type) })
	}
	return false
}

// AppendFunc encodes a field of the type.
func (t *Type) AppendFunc() string { return "append" + t.Name }

// ReadFunc decodes a field of the type.
func (t *Type) ReadFunc() string { return "read" + t.Name }

// CloneFunc copies a value of the type.
func (t *Type) CloneFunc() string { return "clone" + t.Name }

// InitFunc makes the maps in a value of the type.
func (t *Type) InitFunc() string { return "init" + t.Name }

// KnownFunc reports which fields of the type are known.
func (t *Type) KnownFunc() string { return "known" + t.Name }

// AppendElementFunc encodes a value as an element, in a message of its own.
func (t *Type) AppendElementFunc() string { return "append" + t.Name + "Element" }

// ReadElementFunc decodes an element.
func (t *Type) ReadElementFunc() string { return "read" + t.Name + "Element" }

// EncodeFunc encodes a value of an error's type by itself.
func (t *Type) EncodeFunc() string { return "encode" + t.Name }

// DecodeFunc decodes a value of an error's type.
func (t *Type) DecodeFunc() string { return "decode" + t.Name }
