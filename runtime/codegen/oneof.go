package codegen

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// An interface with a closed set of implementations, its cases, is a protobuf message with one
// field for each case, of which at most one is set: protobuf's oneof. A nil interface is the empty
// protobuf message. Nil pointers are refused, because they would look like pointers to zero values.
//
// A case that the reader does not know was added by a newer program. Arguments, results and errors
// with such a case are refused. A state keeps it: the entity holds in its place a value of a
// generated type, whose methods panic, and writes the case back unchanged.

// An UnknownCase is a case of an interface that this program does not know.
type UnknownCase struct {
	oneof  string
	number int
	field  []byte // with its tag
}

type unknownCase interface{ ShardUnknownCase() UnknownCase }

// UnknownCase reads the decoder's current field, which is no known case of the interface named
// oneof. In a state, kept is true; elsewhere the decoder refuses the case.
func (d *Decoder) UnknownCase(oneof string) (c UnknownCase, kept bool) {
	if d.err != nil {
		return c, false
	}
	c = UnknownCase{oneof: oneof, number: d.Field()}
	if !d.keeps {
		d.fail(c.err())
		return c, false
	}
	d.unread = false
	begin := d.pos
	if !d.took(protowire.ConsumeFieldValue(d.num, d.typ, d.b[d.pos:d.end])) {
		return c, false
	}
	c.field = append(protowire.AppendTag(nil, d.num, d.typ), d.b[begin:d.pos]...)
	return c, true
}

func (c UnknownCase) err() error {
	return fmt.Errorf("%s: this program does not know case %d (was it built before the case was added, or after it was removed?)", c.oneof, c.number)
}

// AppendUnknownCase appends v if v stands for an unknown case, and otherwise returns the error of
// [NoCase]. v is none of the known cases of the interface oneof.
func AppendUnknownCase(b []byte, oneof string, v any) ([]byte, error) {
	if u, ok := v.(unknownCase); ok {
		if c := u.ShardUnknownCase(); c.oneof == oneof {
			return append(b, c.field...), nil
		}
	}
	return b, NoCase(oneof, v)
}

// NoCase returns the error for a v that is none of the known cases of the interface oneof, or that
// is a nil pointer.
func NoCase(oneof string, v any) error {
	if u, ok := v.(unknownCase); ok {
		return u.ShardUnknownCase().err()
	}
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
		return fmt.Errorf("%s: a nil %T (set the interface itself to nil, or point to a value)", oneof, v)
	}
	return fmt.Errorf("%s: %T is not a case of this interface (pass a value where the case is a value and a pointer where it is a pointer; if the type is new, run go generate)", oneof, v)
}
