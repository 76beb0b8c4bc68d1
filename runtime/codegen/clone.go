package codegen

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

// The Clone functions copy values that a local call must not share. The copies are as they would
// have arrived from the wire.

// CloneSlice copies a slice whose elements share nothing; an empty one is nil.
func CloneSlice[S ~[]T, T any](s S) S {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

// CloneMap copies a map whose values share nothing; a nil one is empty.
func CloneMap[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return maps.Clone(m)
}

// InitMap makes the map if it is nil: off the wire a map is never nil.
func InitMap[M ~map[K]V, K comparable, V any](m *M) {
	if *m == nil {
		*m = M{}
	}
}

// ClonePointer copies the value of p, which must share nothing.
func ClonePointer[P ~*T, T any](p P) P {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// CloneTime returns t in UTC without its monotonic reading.
func CloneTime(t time.Time) time.Time { return t.Round(0).UTC() }

// CloneText copies v by its text form, so a local call sees and fails on what a remote one would.
func CloneText[T any, P textPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText})
}

// CloneBinary copies v by way of its bytes.
func CloneBinary[T any, P binaryPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary})
}

// CloneGob copies v by way of its bytes.
func CloneGob[T any, P gobPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode})
}

// CloneProto copies a message; nil stays nil.
func CloneProto[M any, P protoPointer[M]](m P) P {
	if m == nil {
		return nil
	}
	return proto.Clone(m).(P)
}

// CloneProtoElement copies a message in a slice or map, where nil becomes an
// empty message.
func CloneProtoElement[M any, P protoPointer[M]](m P) P {
	if m == nil {
		return new(M)
	}
	return proto.Clone(m).(P)
}
