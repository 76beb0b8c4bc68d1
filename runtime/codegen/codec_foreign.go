package codegen

import (
	"encoding"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// AppendTime appends t as field num, unless it is the zero time. The Unix epoch, which is not the
// zero time, is an empty message.
func AppendTime(b []byte, num int, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return PutTime(b, num, t)
}

// PutTime appends t as field num, in the form of google.protobuf.Timestamp.
func PutTime(b []byte, num int, t time.Time) []byte {
	b, at := Open(b, num)
	b = AppendInt(b, 1, t.Unix())
	b = AppendInt(b, 2, int64(t.Nanosecond()))
	return Close(b, at)
}

// ReadTime reads the field into t, in UTC. If the field comes twice, the second message is merged
// into the first, as protobuf requires, unless the first gave the zero time.
func ReadTime(d *Decoder, t *time.Time) {
	var seconds, nanos int64
	if !t.IsZero() {
		seconds, nanos = t.Unix(), int64(t.Nanosecond())
	}
	outer := d.Enter()
	for d.Next() {
		switch d.Field() {
		case 1:
			ReadInt(d, &seconds)
		case 2:
			ReadInt(d, &nanos)
		}
	}
	d.Leave(outer)
	if d.err != nil {
		return
	}
	if nanos < 0 || nanos >= int64(time.Second) {
		d.fail(fmt.Errorf("%d nanoseconds, want 0 to 999999999", nanos))
		return
	}
	*t = time.Unix(seconds, nanos).UTC()
}

type textPointer[T any] interface {
	*T
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

// AppendText appends v's text as field num. It appends nothing for the zero value if that value's
// text is empty, or if decoding the text does not give the zero value.
func AppendText[T any, P textPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return appendOwn(b, num, &v, ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText})
}

// PutText appends v's text as field num.
func PutText[T any, P textPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return putOwn(b, num, &v, ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText})
}

// ReadText reads the field's text into v.
func ReadText[T any, P textPointer[T]](d *Decoder, v *T) {
	readOwn(d, v, ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText})
}

type binaryPointer[T any] interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// AppendBinary appends v's binary form as field num; see [AppendText] for the zero value.
func AppendBinary[T any, P binaryPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return appendOwn(b, num, &v, ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary})
}

// PutBinary appends v's binary form as field num.
func PutBinary[T any, P binaryPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return putOwn(b, num, &v, ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary})
}

// ReadBinary reads the field's bytes into v by UnmarshalBinary.
func ReadBinary[T any, P binaryPointer[T]](d *Decoder, v *T) {
	readOwn(d, v, ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary})
}

type gobPointer[T any] interface {
	*T
	GobEncode() ([]byte, error)
	GobDecode([]byte) error
}

// AppendGob appends v's gob form as field num; see [AppendText] for the zero value.
func AppendGob[T any, P gobPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return appendOwn(b, num, &v, ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode})
}

// PutGob appends v's gob form as field num.
func PutGob[T any, P gobPointer[T]](b []byte, num int, v T) ([]byte, error) {
	return putOwn(b, num, &v, ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode})
}

// ReadGob reads the field's bytes into v by GobDecode.
func ReadGob[T any, P gobPointer[T]](d *Decoder, v *T) {
	readOwn(d, v, ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode})
}

type protoPointer[M any] interface {
	*M
	proto.Message
}

// AppendProto appends m as field num, unless it is nil.
func AppendProto[M any, P protoPointer[M]](b []byte, num int, m P) ([]byte, error) {
	if m == nil {
		return b, nil
	}
	return PutProto(b, num, m)
}

// PutProto appends m as field num. nil is written as an empty message, as protobuf does for
// elements of lists and maps.
func PutProto[M any, P protoPointer[M]](b []byte, num int, m P) ([]byte, error) {
	b, at := Open(b, num)
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
	if err != nil {
		return b, err
	}
	return Close(b, at), nil
}

// ReadProto reads the field into *m, and makes that message if *m is nil.
func ReadProto[M any, P protoPointer[M]](d *Decoder, m *P) {
	data := d.bytes()
	if d.err != nil {
		return
	}
	if *m == nil {
		*m = new(M)
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(data, *m); err != nil {
		d.fail(err)
	} else if d.strict && holdsUnknown((*m).ProtoReflect()) {
		d.fail(errUnknownField)
	}
}

func holdsUnknown(m protoreflect.Message) (found bool) {
	found = len(m.GetUnknown()) > 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
				found = found || holdsUnknown(e.Message())
				return !found
			})
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				found = found || holdsUnknown(v.List().Get(i).Message())
			}
		case !f.IsMap() && !f.IsList() && f.Message() != nil:
			found = found || holdsUnknown(v.Message())
		}
		return !found
	})
	return found
}
