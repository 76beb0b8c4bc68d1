package model

import (
	"slices"
	"strconv"
	"strings"
)

// Shape says how values of a type are encoded.
type Shape int

// The shapes of types. The runtime has functions that encode shapes up to Proto; functions for later
// shapes are generated.
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
	// Constants are the constants of the type that its package declares.
	Constants []Constant
	Len       int64  // of Array and ByteArray
	Name      string // part of the names of its functions: "SKULineMap"
	Elem      *Type  // of Slice, Array, Map, Pointer
	Key       *Type  // of Map
	// Fields of a Struct are encoded. Skipped fields are not, and are zero after decoding.
	Fields  []Field
	Skipped []Skipped
	Retired []int // numbers of a Struct's former fields, if events hold it
	Zero    Zero
	// Own are the names of all fields of a Struct that this package declares, in order; nil if
	// generated code cannot name all of them.
	Own []string
	// Cases are the types that a Oneof may hold.
	Cases []Case
	// IDField is the field tagged id of a Struct that may be a message struct; otherwise it is "".
	IDField string

	// Recursive means that a value may contain values of its own type, to any depth.
	Recursive bool
	// Fallible means that encoding a value may fail.
	Fallible bool
	// Plain means that an assigned copy shares no data with the original, and equals the encoded
	// and decoded value.
	Plain bool
	// CloneFallible means that copying a value may fail.
	CloneFallible bool
	// NeedsInit means that a value contains a map. The map must be made if the value is absent from
	// a message, because a decoded map is never nil.
	NeedsInit bool
}

// A Constant is a named constant of a type.
type Constant struct {
	Name  string
	Value string // a number, true, false, or a quoted string without spaces
}

// QuoteValue returns a string constant as the contract writes it: quoted, in ASCII, without spaces.
func QuoteValue(s string) string { return strings.ReplaceAll(strconv.QuoteToASCII(s), " ", `\x20`) }

// A Case is one of the types that implement an interface.
type Case struct {
	Name   string // of the type, without its package
	Number int    // from 1
	Type   *Type  // of the value that is sent
	// Pointer means that *Type implements the interface, and Type does not.
	Pointer bool
}

// Expr returns the type whose values implement the interface: Type or *Type.
func (c *Case) Expr() *Expr {
	if c.Pointer {
		return &Expr{Op: PointerTo, Elem: c.Type.Expr}
	}
	return c.Type.Expr
}

// CanBeNil reports whether a value of the case may be a nil pointer.
func (c *Case) CanBeNil() bool { return c.Pointer || c.Type.Shape == Proto }

// A Skipped is a field of a struct that is not encoded.
type Skipped struct {
	Name string
	Expr *Expr // nil where the type cannot be written in generated code
	Zero Zero
}

// Zero says how Go code writes a type's zero value.
type Zero int

// Ways to write a zero value.
const (
	ZeroNumber Zero = iota // 0
	ZeroString             // ""
	ZeroBool               // false
	ZeroNil                // nil
	ZeroBraces             // T{}
)

// Scalar reports whether a value of t is one number or bool, which protobuf packs in slices.
func (t *Type) Scalar() bool { return t.Shape <= Float64 }

// Packed reports whether t is a slice or array of numbers or bools.
func (t *Type) Packed() bool {
	return (t.Shape == Slice || t.Shape == Array) && t.Elem.Scalar()
}

// Listed reports whether t is a slice that one function of the runtime encodes.
func (t *Type) Listed() bool {
	return t.Shape == Slice && (t.Elem.Scalar() || t.Elem.Shape == String)
}

// OneField reports whether each value of t is encoded as exactly one field, so that repeating the
// field encodes a list.
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

// Message returns the struct, or the interface with cases, that t is or points to. It returns nil
// for any other type.
func (t *Type) Message() *Type {
	switch {
	case t.Shape == Struct || t.Shape == Oneof:
		return t
	case t.Shape == Pointer && (t.Elem.Shape == Struct || t.Elem.Shape == Oneof):
		return t.Elem
	}
	return nil
}

// UnknownType names the generated type for a case of t that the program does not know.
func (t *Type) UnknownType() string { return "unknown" + t.Name }

// ChecksKeys reports whether two different keys of map t may be encoded as the same key, so that
// encoding must check for it. Such keys have the same text or bytes, are the same instant in two
// time zones, or differ in a field that is not encoded.
func (t *Type) ChecksKeys() bool { return t.Shape == Map && ambiguous(t.Key) }

// ambiguous reports whether different keys of type t may have the same encoding.
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

// AppendFunc names the function that encodes a field of the type.
func (t *Type) AppendFunc() string { return "append" + t.Name }

// ReadFunc names the function that decodes a field of the type.
func (t *Type) ReadFunc() string { return "read" + t.Name }

// CloneFunc names the function that copies a value of the type.
func (t *Type) CloneFunc() string { return "clone" + t.Name }

// InitFunc names the function that makes the maps in a value of the type.
func (t *Type) InitFunc() string { return "init" + t.Name }

// KnownFunc names the function that reports the known fields of the type.
func (t *Type) KnownFunc() string { return "known" + t.Name }

// AppendElementFunc names the function that encodes a value as an element of a list, in a message
// of its own.
func (t *Type) AppendElementFunc() string { return "append" + t.Name + "Element" }

// ReadElementFunc names the function that decodes an element encoded by AppendElementFunc's
// function.
func (t *Type) ReadElementFunc() string { return "read" + t.Name + "Element" }

// EncodeFunc names the function that encodes the value of a declared error of type t.
func (t *Type) EncodeFunc() string { return "encode" + t.Name }

// DecodeFunc names the function that decodes the value of a declared error of type t.
func (t *Type) DecodeFunc() string { return "decode" + t.Name }
