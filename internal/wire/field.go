package wire

import "google.golang.org/protobuf/encoding/protowire"

// A Field is one field of an encoded message. Bytes is its content if Type is BytesType, and
// nil otherwise. It shares memory with the message.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	Bytes  []byte
}

// EachField calls f with each field of an encoded message, in order. If f returns an error,
// EachField stops and returns that error. EachField allocates nothing. So a program can count the
// elements of an untrusted message before it allocates memory for decoding the message.
func EachField(b []byte, f func(Field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		field := Field{Number: number, Type: kind}
		if kind == protowire.BytesType {
			field.Bytes, n = protowire.ConsumeBytes(b)
		} else {
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(field); err != nil {
			return err
		}
	}
	return nil
}

func sizeString(num protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeBytes(len(s))
}

// eachBytes calls f for each length-delimited field numbered want.
func eachBytes(b []byte, want protowire.Number, what string, f func([]byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed(what, n)
		}
		b = b[n:]
		if num != want || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return malformed(what, n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return malformed(what, n)
		}
		if err := f(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
