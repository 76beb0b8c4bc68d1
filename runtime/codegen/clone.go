package codegen

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

// The Clone functions copy values that a local call must not share. The copies equal values decoded
// from the wire.

// CloneSlice copies a slice whose elements hold no references. The copy of an empty slice is nil.
func CloneSlice[S ~[]T, T any](s S) S {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

// CloneMap copies a map whose values hold no references. The copy of a nil map is empty.
func CloneMap[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return maps.Clone(m)
}

// InitMap makes the map if it is nil, because a decoded map is never nil.
func InitMap[M ~map[K]V, K comparable, V any](m *M) {
	if *m == nil {
		*m = M{}
	}
}

// ClonePointer copies the value of p, which must hold no references.
func ClonePointer[P ~*T, T any](p P) P {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// CloneTime returns t in UTC without its monotonic reading.
func CloneTime(t time.Time) time.Time { return t.Round(0).UTC() }

// CloneText copies v by its text form, so a local call gets the same value, or the same error, as a
// remote call.
func CloneText[T any, P textPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText})
}

// CloneBinary copies v by encoding it with MarshalBinary and decoding the bytes.
func CloneBinary[T any, P binaryPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary})
}

// CloneGob copies v by encoding it with GobEncode and decoding the bytes.
func CloneGob[T any, P gobPointer[T]](v T) (T, error) {
	return cloneOwn(&v, ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode})
}

// CloneProto copies a message. The copy of nil is nil.
func CloneProto[M any, P protoPointer[M]](m P) P {
	if m == nil {
		return nil
	}
	return proto.Clone(m).(P)
}

// CloneProtoElement copies a message in a slice or map. The copy of nil is an empty message.
func CloneProtoElement[M any, P protoPointer[M]](m P) P {
	if m == nil {
		return new(M)
	}
	return proto.Clone(m).(P)
}
