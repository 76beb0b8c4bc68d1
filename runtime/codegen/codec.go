package codegen

import (
	"errors"
	"fmt"
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
//     map is a map, in the order of its keys if they are numbers or strings. Where
//     protobuf has no such thing (a slice of slices, a map of pointers) each element
//     is a message with the value in field 1.
//   - A struct is a message of its fields, numbered from 1 in their order.
//   - A pointer is an optional field: nil stays nil, and a pointer to zero a
//     pointer to zero.
//   - time.Time is shaped as google.protobuf.Timestamp; it arrives in UTC and
//     without a monotonic reading, and the zero time as the zero time.
//   - A protobuf message is itself; a type with MarshalText and UnmarshalText is a string; one with
//     MarshalBinary and UnmarshalBinary is bytes.
//
// An empty slice arrives as nil and a nil map as an empty one, so that append to the slice and
// assignment to the map work. Arguments and results of a local call are copied (Clone…) so that
// they arrive the same.
//
// Append… leaves out a zero value, as protobuf does; Put… never does, and is for elements and for
// targets of pointers.

type signed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64
}

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

// PutInt appends v as field num, even if v is zero.
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

// PutUint appends v as field num, even if v is zero.
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

// PutBool appends v as field num, even if v is false.
func PutBool[T ~bool](b []byte, num int, v T) []byte {
	return protowire.AppendVarint(tag(b, num, protowire.VarintType), protowire.EncodeBool(bool(v)))
}

// AppendFloat32 appends v as field num, unless it is zero; minus zero is appended.
func AppendFloat32[T ~float32](b []byte, num int, v T) []byte {
	if math.Float32bits(float32(v)) == 0 {
		return b
	}
	return PutFloat32(b, num, v)
}

// PutFloat32 appends v as field num, even if v is zero.
func PutFloat32[T ~float32](b []byte, num int, v T) []byte {
	return protowire.AppendFixed32(tag(b, num, protowire.Fixed32Type), math.Float32bits(float32(v)))
}

// AppendFloat64 appends v as field num, unless it is zero; minus zero is appended.
func AppendFloat64[T ~float64](b []byte, num int, v T) []byte {
	if math.Float64bits(float64(v)) == 0 {
		return b
	}
	return PutFloat64(b, num, v)
}

// PutFloat64 appends v as field num, even if v is zero.
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

// PutString appends v as field num, even if v is empty.
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

// PutBytes appends v as field num, even if v is empty.
func PutBytes[T ~[]byte](b []byte, num int, v T) []byte {
	return protowire.AppendBytes(tag(b, num, protowire.BytesType), v)
}

// Open begins a message as field num. Everything appended from now on is its content, until [Close]
// is called with the returned position.
func Open(b []byte, num int) ([]byte, int) {
	b = append(tag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

// Close ends the message that [Open] began. at is the position that Open returned.
func Close(b []byte, at int) []byte {
	size := uint64(len(b) - at)
	if size < 0x80 {
		b[at-1] = byte(size)
		return b
	}
	// The length takes more than the one byte that Open reserved: move the content on.
	extra := protowire.SizeVarint(size) - 1
	var room [9]byte
	b = append(b, room[:extra]...)
	copy(b[at+extra:], b[at:])
	protowire.AppendVarint(b[:at-1], size)
	return b
}

// maxDecodeDepth bounds the nesting of messages, as in protobuf. It exceeds [MaxDepth], the bound
// of writers.
const maxDecodeDepth = 10_000

var errDecodeDepth = fmt.Errorf("messages are nested deeper than %d", maxDecodeDepth)

// A Decoder reads one message, and the messages in it. The bytes need not be valid: after the first
// error the Decoder reads nothing more, and [Decoder.Err] returns that error.
//
//	d := codegen.NewDecoder(b)
//	for d.Next() {
//		switch d.Field() {
//		case 1:
//			codegen.ReadString(&d, &name)
//		}
//	}
//	return name, d.Err("state of Stock")
//
// If the caller has not read a field, the following Next skips the field.
type Decoder struct {
	b      []byte
	pos    int // of the next byte
	end    int // of the message being read
	depth  int
	num    protowire.Number
	typ    protowire.Type
	unread bool // the field's value has not been read
	passed bool // a field was skipped
	keeps  bool // for a state: unknown cases are kept
	strict bool // for an event: unknown fields are refused
	err    error
	// ref and method name the call whose results the message holds, for decoding errors.
	ref    *Ref
	method string
}

// NewDecoder returns a decoder of the message b. The values that it reads never share
// memory with b.
func NewDecoder(b []byte) Decoder { return Decoder{b: b, end: len(b)} }

// NewStateDecoder returns a decoder of a state. It keeps unknown cases of interfaces, which the
// decoder of [NewDecoder] refuses.
func NewStateDecoder(b []byte) Decoder { return Decoder{b: b, end: len(b), keeps: true} }

// NewEventDecoder returns a decoder of an event that is to be applied. It refuses unknown fields:
// applied without them, the event would give a wrong state, which the next commit would store.
func NewEventDecoder(b []byte) Decoder { return Decoder{b: b, end: len(b), strict: true} }

// Next goes to the next field of the message and reports whether there is one.
func (d *Decoder) Next() bool {
	if d.err == nil && d.unread {
		d.pass()
	}
	if d.err != nil || d.pos == d.end {
		return false
	}
	num, typ, n := protowire.ConsumeTag(d.b[d.pos:d.end])
	if n < 0 {
		d.fail(protowire.ParseError(n))
		return false
	}
	d.pos += n
	d.num, d.typ, d.unread = num, typ, true
	return true
}

// Field returns the number of the current field.
func (d *Decoder) Field() int { return int(d.num) }

// Enter enters the message in the current field. It returns the argument for [Decoder.Leave].
func (d *Decoder) Enter() (outer int) {
	outer = d.end
	d.depth++
	if d.depth > maxDecodeDepth {
		d.fail(errDecodeDepth)
	}
	content := d.bytes()
	if d.err == nil {
		d.end, d.pos = d.pos, d.pos-len(content)
	}
	return outer
}

// Leave returns to the message around the one that Enter entered.
func (d *Decoder) Leave(outer int) {
	if d.err == nil && d.unread {
		d.pass()
	}
	d.depth--
	if d.err == nil {
		d.pos = d.end
	}
	d.end = outer
}

// Skipped reports whether a field of the message, or of a message in it, was skipped: one that only
// newer programs know, or one that is retired.
func (d *Decoder) Skipped() bool { return d.passed }

// Err returns the first error as a [*DecodeError], or nil if there is none. what names the decoded
// value in the error.
func (d *Decoder) Err(what string) error {
	if d.err == nil {
		return nil
	}
	return &DecodeError{What: what, Err: d.err}
}

// Arguments returns nil, or the first error as an [*ArgumentsError].
func (d *Decoder) Arguments() error {
	if d.err == nil {
		return nil
	}
	return &ArgumentsError{Err: d.Err("arguments")}
}

// Results returns nil or the error of a call: the call's own error, or the first error in decoding
// its results.
func (d *Decoder) Results() error {
	switch {
	case d.err == nil:
		return nil
	case d.ref == nil:
		return d.err
	}
	return d.ref.Invoker.Failed(d.ref, d.method, true, d.Err("results"))
}

// ReadBack returns nil, or an [*EncodeError] if this decoder failed on a value just encoded. A
// type's own encoding may write what its decoding refuses.
func (d *Decoder) ReadBack(what string) error {
	if d.err == nil {
		return nil
	}
	return &EncodeError{What: what, Err: fmt.Errorf("the encoded value cannot be decoded: %w", d.err)}
}

// fail keeps the first error, with the number of the current field.
func (d *Decoder) fail(err error) {
	if d.err != nil {
		return
	}
	if d.num > 0 {
		err = fmt.Errorf("field %d: %w", d.num, err)
	}
	d.err = err
}

// want lets the caller read the current field. It fails if the field was read already, or has
// another wire type than typ: then the writer broke the contract.
func (d *Decoder) want(typ protowire.Type) bool {
	if d.err != nil {
		return false
	}
	if !d.unread {
		d.fail(errors.New("read twice"))
		return false
	}
	if d.typ != typ {
		d.fail(fmt.Errorf("the field has wire type %d: want %d", d.typ, typ))
		return false
	}
	d.unread = false
	return true
}

func (d *Decoder) took(n int) bool {
	if n < 0 {
		d.fail(protowire.ParseError(n))
		return false
	}
	d.pos += n
	return true
}

// Retired skips the current field, which this program's contract has retired. An event with a
// retired field can be decoded, while an event with an unknown field is refused.
func (d *Decoder) Retired() {
	if d.err == nil {
		d.skip()
	}
}

var errUnknownField = errors.New("this program does not know the field (was it built before the field was added?)")

func (d *Decoder) pass() {
	if d.strict {
		d.fail(errUnknownField)
		return
	}
	d.skip()
}

func (d *Decoder) skip() {
	d.unread, d.passed = false, true
	d.took(protowire.ConsumeFieldValue(d.num, d.typ, d.b[d.pos:d.end]))
}

func (d *Decoder) varint() uint64 {
	if !d.want(protowire.VarintType) {
		return 0
	}
	x, n := protowire.ConsumeVarint(d.b[d.pos:d.end])
	d.took(n)
	return x
}

// bytes returns the current field's content as a slice of the input, with capped capacity.
func (d *Decoder) bytes() []byte {
	if !d.want(protowire.BytesType) {
		return nil
	}
	x, n := protowire.ConsumeBytes(d.b[d.pos:d.end])
	d.took(n)
	return x[:len(x):len(x)]
}

// ReadInt reads the field into v.
func ReadInt[T signed](d *Decoder, v *T) {
	x := int64(d.varint())
	if d.err != nil {
		return
	}
	if t := T(x); int64(t) == x {
		*v = t
		return
	}
	d.fail(fmt.Errorf("%d does not fit %T", x, *v))
}

// ReadUint reads the field into v.
func ReadUint[T unsigned](d *Decoder, v *T) {
	x := d.varint()
	if d.err != nil {
		return
	}
	if t := T(x); uint64(t) == x {
		*v = t
		return
	}
	d.fail(fmt.Errorf("%d does not fit %T", x, *v))
}

// ReadBool reads the field into v.
func ReadBool[T ~bool](d *Decoder, v *T) {
	x := d.varint()
	if d.err == nil {
		*v = T(protowire.DecodeBool(x))
	}
}

// ReadFloat32 reads the field into v.
func ReadFloat32[T ~float32](d *Decoder, v *T) {
	if !d.want(protowire.Fixed32Type) {
		return
	}
	x, n := protowire.ConsumeFixed32(d.b[d.pos:d.end])
	if d.took(n) {
		*v = T(math.Float32frombits(x))
	}
}

// ReadFloat64 reads the field into v.
func ReadFloat64[T ~float64](d *Decoder, v *T) {
	if !d.want(protowire.Fixed64Type) {
		return
	}
	x, n := protowire.ConsumeFixed64(d.b[d.pos:d.end])
	if d.took(n) {
		*v = T(math.Float64frombits(x))
	}
}

// ReadString reads the field into v.
func ReadString[T ~string](d *Decoder, v *T) {
	x := d.bytes()
	if d.err == nil {
		*v = T(x)
	}
}

// ReadBytes reads a copy of the field into v; the copy of an empty field is nil.
func ReadBytes[T ~[]byte](d *Decoder, v *T) {
	x := d.bytes()
	if d.err == nil {
		*v = append(T(nil), x...)
	}
}
