package codegen

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDecodeDepth bounds the messages within messages that a [Decoder] enters.
// It is protobuf's own bound, and above the depth that [MaxDepth] lets a writer write.
const maxDecodeDepth = 10_000

var errDecodeDepth = fmt.Errorf("messages nested deeper than %d", maxDecodeDepth)

// A Decoder reads one message, and the messages in it, from hostile bytes. The
// first error sticks: all that follows reads nothing, and [Decoder.Err] tells it.
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
// Fields that nobody reads are skipped.
type Decoder struct {
	b      []byte
	pos    int // of the next byte
	end    int // of the message being read
	depth  int
	num    protowire.Number
	typ    protowire.Type
	unread bool // the field's value has not been read
	passed bool // a field was skipped
	keeps  bool // it reads a state
	err    error
	// Of the results of a call: whose error theirs becomes.
	ref    *Ref
	method string
}

// NewDecoder returns a decoder of the message b. The values that it reads never share
// memory with b.
func NewDecoder(b []byte) Decoder { return Decoder{b: b, end: len(b)} }

// NewStateDecoder returns a decoder of a state. It keeps fields of a newer program, which
// [NewDecoder] refuses.
func NewStateDecoder(b []byte) Decoder { return Decoder{b: b, end: len(b), keeps: true} }

// Next goes to the next field of the message and reports whether there is one.
func (d *Decoder) Next() bool {
	if d.err == nil && d.unread {
		d.skip()
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

// Field is the number of the field that Next went to.
func (d *Decoder) Field() int { return int(d.num) }

// Enter goes into the message in the field. It returns the argument for [Decoder.Leave].
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

// Leave goes back to the message around the one entered.
func (d *Decoder) Leave(outer int) {
	if d.err == nil && d.unread {
		d.skip()
	}
	d.depth--
	if d.err == nil {
		d.pos = d.end
	}
	d.end = outer
}

// Skipped reports whether any field, of the message or of those in it, was read by
// nobody: the writer's program is newer.
func (d *Decoder) Skipped() bool { return d.passed }

// Err returns nil, or a [*DecodeError] about the value named by what.
func (d *Decoder) Err(what string) error {
	if d.err == nil {
		return nil
	}
	return &DecodeError{What: what, Err: d.err}
}

// Arguments returns nil, or an [*ArgumentsError] about the arguments named by what.
func (d *Decoder) Arguments() error {
	if d.err == nil {
		return nil
	}
	return &ArgumentsError{Err: d.Err("arguments")}
}

// Results returns nil, or the error of the call whose results these are: its own, or one
// about results that cannot be decoded.
func (d *Decoder) Results() error {
	switch {
	case d.err == nil:
		return nil
	case d.ref == nil:
		return d.err
	}
	return d.ref.Port.Failed(d.ref, d.method, true, d.Err("results"))
}

// ReadBack returns nil, or an [*EncodeError] about a value that this program has just
// written and cannot read: a type's own form may write values that it does not read.
func (d *Decoder) ReadBack(what string) error {
	if d.err == nil {
		return nil
	}
	return &EncodeError{What: what, Err: fmt.Errorf("what was written cannot be read: %w", d.err)}
}

// fail keeps the first error, with the field in which it arose.
func (d *Decoder) fail(err error) {
	if d.err != nil {
		return
	}
	if d.num > 0 {
		err = fmt.Errorf("field %d: %w", d.num, err)
	}
	d.err = err
}

// want reports whether the field is of that wire type, and fails if not: a
// field that changed its type is a broken contract.
func (d *Decoder) want(typ protowire.Type) bool {
	if d.err != nil {
		return false
	}
	if !d.unread {
		d.fail(errors.New("read twice"))
		return false
	}
	if d.typ != typ {
		d.fail(fmt.Errorf("wire type %d, want %d", d.typ, typ))
		return false
	}
	d.unread = false
	return true
}

// took moves on by the n bytes of a value, or fails if n is a parse error.
func (d *Decoder) took(n int) bool {
	if n < 0 {
		d.fail(protowire.ParseError(n))
		return false
	}
	d.pos += n
	return true
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

// bytes returns the content of the field, which is part of the input. Appending to it
// does not write to the bytes that follow.
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

// ReadBytes reads the field into v: a copy, nil when empty.
func ReadBytes[T ~[]byte](d *Decoder, v *T) {
	x := d.bytes()
	if d.err == nil {
		*v = append(T(nil), x...)
	}
}
