package durablehost

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Body is the call that a tell makes of its entity. Its form outlives programs, as an Answer's.
type Body struct {
	Method string
	Args   []byte
	Info   []byte // what the call says about itself, as in an envelope; nil means nothing
}

// Fields of a body.
const (
	bodyMethod = 1
	bodyArgs   = 2
	bodyInfo   = 3
)

var errBody = errors.New("a kept tell cannot be read (was it written by a newer program? run that version, or a later one, here too)")

// Append appends the encoded body.
func (d Body) Append(b []byte) []byte {
	b = protowire.AppendTag(b, bodyMethod, protowire.BytesType)
	b = protowire.AppendString(b, d.Method)
	if len(d.Args) > 0 {
		b = protowire.AppendTag(b, bodyArgs, protowire.BytesType)
		b = protowire.AppendBytes(b, d.Args)
	}
	if len(d.Info) > 0 {
		b = protowire.AppendTag(b, bodyInfo, protowire.BytesType)
		b = protowire.AppendBytes(b, d.Info)
	}
	return b
}

// ReadBody decodes a body. It refuses unknown fields.
func ReadBody(b []byte) (d Body, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Body{}, fmt.Errorf("%w: %w", errBody, protowire.ParseError(n))
		}
		b = b[n:]
		if kind != protowire.BytesType || number < bodyMethod || number > bodyInfo {
			return Body{}, fmt.Errorf("%w: field %d", errBody, number)
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return Body{}, fmt.Errorf("%w: %w", errBody, protowire.ParseError(n))
		}
		b = b[n:]
		switch number {
		case bodyMethod:
			d.Method = string(v)
		case bodyArgs:
			d.Args = v
		case bodyInfo:
			d.Info = v
		}
	}
	return d, nil
}
