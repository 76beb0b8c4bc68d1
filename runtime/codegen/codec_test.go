package codegen

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestWireBytes fixes the encoding of values, which must never change.
func TestWireBytes(t *testing.T) {
	type name string
	text := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"zero int", AppendInt(nil, 1, 0), ""},
		{"int", AppendInt(nil, 1, 300), "\x08\xac\x02"},
		{"negative int8", AppendInt(nil, 2, int8(-1)), "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"zero int, put", PutInt(nil, 1, 0), "\x08\x00"},
		{"duration", AppendInt(nil, 1, time.Microsecond), "\x08\xe8\x07"},
		{"uint", AppendUint(nil, 1, uint8(200)), "\x08\xc8\x01"},
		{"zero uint, put", PutUint(nil, 1, uint(0)), "\x08\x00"},
		{"false", AppendBool(nil, 1, false), ""},
		{"true", AppendBool(nil, 1, true), "\x08\x01"},
		{"false, put", PutBool(nil, 1, false), "\x08\x00"},
		{"float32", AppendFloat32(nil, 1, float32(1)), "\x0d\x00\x00\x80\x3f"},
		{"zero float32", AppendFloat32(nil, 1, float32(0)), ""},
		{"float64", AppendFloat64(nil, 1, 1.0), "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{"minus zero is not zero", AppendFloat64(nil, 1, math.Copysign(0, -1)), "\x09\x00\x00\x00\x00\x00\x00\x00\x80"},
		{"string", AppendString(nil, 1, name("ab")), "\x0a\x02ab"},
		{"empty string", AppendString(nil, 1, name("")), ""},
		{"empty string, put", PutString(nil, 1, ""), "\x0a\x00"},
		{"bytes", AppendBytes(nil, 1, []byte("ab")), "\x0a\x02ab"},
		{"empty bytes", AppendBytes(nil, 1, []byte{}), ""},
		{"high field number", AppendBool(nil, 1<<29-1, true), "\xf8\xff\xff\xff\x0f\x01"},
		{"ints", AppendInts(nil, 1, []int{1, -1}), "\x0a\x0b\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"no ints", AppendInts(nil, 1, []int{}), ""},
		{"uints", AppendUints(nil, 1, []uint16{1, 300}), "\x0a\x03\x01\xac\x02"},
		{"bools", AppendBools(nil, 1, []bool{true, false}), "\x0a\x02\x01\x00"},
		{"float32s", AppendFloat32s(nil, 1, []float32{1}), "\x0a\x04\x00\x00\x80\x3f"},
		{"float64s", AppendFloat64s(nil, 1, []float64{1}), "\x0a\x08\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{"strings", AppendStrings(nil, 1, []name{"a", ""}), "\x0a\x01a\x0a\x00"},
		{"zero time", AppendTime(nil, 1, time.Time{}), ""},
		{"epoch", AppendTime(nil, 1, time.Unix(0, 0)), "\x0a\x00"},
		{"time", AppendTime(nil, 1, time.Unix(1, 5)), "\x0a\x04\x08\x01\x10\x05"},
		{"text", text(AppendText(nil, 1, *big.NewInt(12))), "\x0a\x0212"},
		{"empty text", text(AppendText(nil, 1, netip.Addr{})), ""},
		{"empty text, put", text(PutText(nil, 1, netip.Addr{})), "\x0a\x00"},
		{"binary", text(AppendBinary(nil, 1, netip.AddrFrom4([4]byte{1, 2, 3, 4}))), "\x0a\x04\x01\x02\x03\x04"},
		{"message", text(AppendProto(nil, 1, wrapperspb.Bool(true))), "\x0a\x02\x08\x01"},
		{"no message", text(AppendProto(nil, 1, (*wrapperspb.BoolValue)(nil))), ""},
		{"no message, put", text(PutProto(nil, 1, (*wrapperspb.BoolValue)(nil))), "\x0a\x00"},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

// TestMessageLength: Close makes room if the length of a message takes more than one byte.
func TestMessageLength(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 129, 16383, 16384, 1<<21 - 1, 1 << 21} {
		content := bytes.Repeat([]byte{7}, size)
		b, at := Open([]byte("before"), 1)
		b = Close(append(b, content...), at)
		want := protowire.AppendBytes(protowire.AppendTag([]byte("before"), 1, protowire.BytesType), content)
		if !bytes.Equal(b, want) {
			t.Errorf("%d bytes: got %d bytes, want %d", size, len(b), len(want))
		}
	}
}

// decode reads one field with read.
func decode(b string, read func(*Decoder)) error {
	d := NewDecoder([]byte(b))
	for d.Next() {
		if d.Field() == 1 {
			read(&d)
		}
	}
	return d.Err("test")
}

func TestHostileBytes(t *testing.T) {
	var (
		i8    int8
		u8    uint8
		i     int
		s     string
		ints  []int8
		uints []uint8
		when  time.Time
		array [3]byte
		n     big.Int
		m     *wrapperspb.StringValue
		f     float64
		fs    []float32
	)
	readInt := func(d *Decoder) { ReadInt(d, &i) }
	nested := func(d *Decoder) {
		var deeper func()
		deeper = func() {
			outer := d.Enter()
			for d.Next() {
				deeper()
			}
			d.Leave(outer)
		}
		deeper()
	}
	deep := []byte{}
	for range maxDecodeDepth + 1 {
		deep = protowire.AppendBytes([]byte{0x0a}, deep)
	}
	tests := []struct {
		name, in string
		read     func(*Decoder)
		want     string // part of the error
	}{
		{"half a tag", "\xff", readInt, "unexpected EOF"},
		{"field zero", "\x00\x01", readInt, "invalid field number"},
		{"no value", "\x08", readInt, "unexpected EOF"},
		{"endless varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", readInt, "overflow"},
		{"too large an int8", "\x08\x80\x01", func(d *Decoder) { ReadInt(d, &i8) }, "field 1: 128 does not fit int8"},
		{"too large a uint8", "\x08\x80\x02", func(d *Decoder) { ReadUint(d, &u8) }, "field 1: 256 does not fit uint8"},
		{"too large a packed int8", "\x0a\x02\x80\x01", func(d *Decoder) { ReadInts(d, &ints) }, "128 does not fit int8"},
		{"too large a packed uint8", "\x0a\x02\x80\x02", func(d *Decoder) { ReadUints(d, &uints) }, "256 does not fit uint8"},
		{"half a packed int", "\x0a\x01\x80", func(d *Decoder) { ReadInts(d, &ints) }, "unexpected EOF"},
		{"half a packed float", "\x0a\x03\x00\x00\x00", func(d *Decoder) { ReadFloat32s(d, &fs) }, "unexpected EOF"},
		{"another wire type", "\x0a\x01a", readInt, "wire type 2: want 0"},
		{"a varint for a float", "\x08\x01", func(d *Decoder) { ReadFloat64(d, &f) }, "wire type 0: want 1"},
		{"a length past the end", "\x0a\x05ab", func(d *Decoder) { ReadString(d, &s) }, "unexpected EOF"},
		{"a huge length", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", func(d *Decoder) { ReadString(d, &s) }, "unexpected EOF"},
		{"a message past the end", "\x0a\x05\x08", nested, "unexpected EOF"},
		{"a field past its message", "\x0a\x01\x08\x01", func(d *Decoder) { ReadTime(d, &when) }, "unexpected EOF"},
		{"too many nanoseconds", "\x0a\x06\x10\x80\x94\xeb\xdc\x03", func(d *Decoder) { ReadTime(d, &when) }, "nanoseconds"},
		{"too short an array", "\x0a\x02ab", func(d *Decoder) { ReadByteArray(d, array[:]) }, "2 elements do not fit an array of 3"},
		{"too long an array", "\x0a\x04abcd", func(d *Decoder) { ReadByteArray(d, array[:]) }, "4 elements do not fit an array of 3"},
		{"bad text", "\x0a\x01x", func(d *Decoder) { ReadText(d, &n) }, "unmarshal"},
		{"a bad message", "\x0a\x01\x0a", func(d *Decoder) { ReadProto(d, &m) }, "proto"},
		{"too deep", string(deep), nested, "nested deeper"},
		{"an open group", "\x0b\x08\x01", func(*Decoder) {}, "unexpected EOF"},
		{"a group's end", "\x0c", func(*Decoder) {}, "end group"},
		{"read twice", "\x08\x01", func(d *Decoder) { readInt(d); readInt(d) }, "read twice"},
	}
	for _, tt := range tests {
		err := decode(tt.in, tt.read)
		var typed *DecodeError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want a DecodeError with %q", tt.name, err, tt.want)
		}
	}
}

// TestUnknownFields: unknown fields of any wire type are skipped, before, between and within
// messages.
func TestUnknownFields(t *testing.T) {
	unknown := "\x10\x01" + "\x19\x00\x00\x00\x00\x00\x00\x00\x00" + "\x22\x02ab" + "\x2b\x08\x01\x2c" + "\x35\x00\x00\x00\x00"
	var when time.Time
	in := unknown + "\x0a" + string(rune(2+len(strings.Replace(unknown, "\x10\x01", "", 1)))) + "\x08\x05" + strings.Replace(unknown, "\x10\x01", "", 1) + unknown
	if err := decode(in, func(d *Decoder) { ReadTime(d, &when) }); err != nil || !when.Equal(time.Unix(5, 0)) {
		t.Errorf("got %v, %v, want %v", when, err, time.Unix(5, 0))
	}
}

// TestPackedOrNot: a list is read whether its elements are packed, not packed, or both.
func TestPackedOrNot(t *testing.T) {
	var ints []int16
	var uints []uint
	var bools []bool
	var floats []float32
	var doubles []float64
	tests := []struct {
		name, in string
		read     func(*Decoder)
		got      func() bool
	}{
		{"ints", "\x08\x01\x0a\x02\x02\x03\x08\x04", func(d *Decoder) { ReadInts(d, &ints) }, func() bool { return slices.Equal(ints, []int16{1, 2, 3, 4}) }},
		{"uints", "\x08\x01\x0a\x02\x02\x03\x08\x04", func(d *Decoder) { ReadUints(d, &uints) }, func() bool { return slices.Equal(uints, []uint{1, 2, 3, 4}) }},
		{"bools", "\x08\x01\x0a\x02\x00\x02\x08\x00", func(d *Decoder) { ReadBools(d, &bools) }, func() bool { return slices.Equal(bools, []bool{true, false, true, false}) }},
		{
			"floats", "\x0d\x00\x00\x80\x3f\x0a\x04\x00\x00\x80\x3f",
			func(d *Decoder) { ReadFloat32s(d, &floats) },
			func() bool { return slices.Equal(floats, []float32{1, 1}) },
		},
		{
			"doubles", "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x0a\x08\x00\x00\x00\x00\x00\x00\xf0\x3f",
			func(d *Decoder) { ReadFloat64s(d, &doubles) },
			func() bool { return slices.Equal(doubles, []float64{1, 1}) },
		},
	}
	for _, tt := range tests {
		if err := decode(tt.in, tt.read); err != nil || !tt.got() {
			t.Errorf("%s: wrong values or error %v", tt.name, err)
		}
	}
}

// TestEmptyListsAreNil: an empty packed list and empty bytes are read as nil.
func TestEmptyListsAreNil(t *testing.T) {
	var ints []int
	var data []byte
	if err := decode("\x0a\x00", func(d *Decoder) { ReadInts(d, &ints) }); err != nil || ints != nil {
		t.Errorf("ints: got %#v, %v, want nil", ints, err)
	}
	if err := decode("\x0a\x00", func(d *Decoder) { ReadBytes(d, &data) }); err != nil || data != nil {
		t.Errorf("bytes: got %#v, %v, want nil", data, err)
	}
}

func TestFirstErrorSticks(t *testing.T) {
	d := NewDecoder([]byte("\x0a\x01a\x10\x01"))
	d.Next()
	n, s := 5, "kept"
	ReadInt(&d, &n)
	if d.Next() {
		t.Error("Next after an error is true")
	}
	ReadString(&d, &s)
	outer := d.Enter()
	d.Leave(outer)
	if err := d.Err("x"); n != 5 || s != "kept" || err == nil || !strings.Contains(err.Error(), "decode x: field 1: the field has wire type 2: want 0") {
		t.Errorf("got %d, %q, %v; want 5, kept, and the first error", n, s, err)
	}
}

func TestSortedKeys(t *testing.T) {
	if got := SortedKeys(map[string]int{"b": 1, "a": 2, "c": 3}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %v, want a, b, c", got)
	}
	if got := SortedKeys(map[int]int(nil)); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

// FuzzDecoder decodes any bytes as messages within messages.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\x0a\x04\x0a\x02\x08\x01\x12\x01a"), byte(2))
	f.Fuzz(func(t *testing.T, b []byte, deep byte) {
		d := NewDecoder(b)
		var walk func(depth byte)
		walk = func(depth byte) {
			for d.Next() {
				switch d.Field() % 8 {
				case 0:
					var s []string
					ReadStrings(&d, &s)
				case 1:
					if depth > 0 {
						outer := d.Enter()
						walk(depth - 1)
						d.Leave(outer)
					}
				case 2:
					var s []int32
					ReadInts(&d, &s)
				case 3:
					var v uint16
					ReadUint(&d, &v)
				case 4:
					var v time.Time
					ReadTime(&d, &v)
				case 5:
					var v []float64
					ReadFloat64s(&d, &v)
				case 6:
					var v netip.Addr
					ReadText(&d, &v)
				}
			}
		}
		walk(deep)
		if d.err == nil && d.pos != len(b) {
			t.Errorf("read %d of %d bytes without an error", d.pos, len(b))
		}
	})
}
