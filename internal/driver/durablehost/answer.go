package durablehost

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// An Answer is a command's answer in the form in which the shard's log keeps it, for callers that
// send the command again.
type Answer struct {
	Code    uint32 // a code of package wire; 0 means results
	Text    string // text of an error
	Payload []byte // encoded results, or the causes of an error
}

// Field numbers of an encoded Answer. Logs outlive programs: no number may change its meaning.
const (
	answerCode    = 1
	answerText    = 2
	answerPayload = 3
)

var errAnswer = errors.New("a command's answer kept in the log cannot be read (was it written by a newer program? run that version, or a later one, here too)")

// Append appends the encoded answer to b.
func (r Answer) Append(b []byte) []byte {
	b = slices.Grow(b, r.size())
	if r.Code != 0 {
		b = protowire.AppendTag(b, answerCode, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(r.Code))
	}
	if r.Text != "" {
		b = protowire.AppendTag(b, answerText, protowire.BytesType)
		b = protowire.AppendString(b, r.Text)
	}
	if len(r.Payload) > 0 {
		b = protowire.AppendTag(b, answerPayload, protowire.BytesType)
		b = protowire.AppendBytes(b, r.Payload)
	}
	return b
}

// size returns how many bytes Append appends. Exact allocation matters: shards keep thousands of
// mostly small answers.
func (r Answer) size() (n int) {
	if r.Code != 0 {
		n += protowire.SizeTag(answerCode) + protowire.SizeVarint(uint64(r.Code))
	}
	if r.Text != "" {
		n += protowire.SizeTag(answerText) + protowire.SizeBytes(len(r.Text))
	}
	if len(r.Payload) > 0 {
		n += protowire.SizeTag(answerPayload) + protowire.SizeBytes(len(r.Payload))
	}
	return n
}

// ReadAnswer decodes an answer. It refuses unknown fields, because the caller would otherwise get
// only a part of the answer.
func ReadAnswer(b []byte) (r Answer, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Answer{}, fmt.Errorf("%w: %w", errAnswer, protowire.ParseError(n))
		}
		b = b[n:]
		switch {
		case number == answerCode && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			r.Code = uint32(v)
		case number == answerText && kind == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			r.Text = string(v)
		case number == answerPayload && kind == protowire.BytesType:
			r.Payload, n = protowire.ConsumeBytes(b)
		default:
			return Answer{}, fmt.Errorf("%w: field %d", errAnswer, number)
		}
		if n < 0 {
			return Answer{}, fmt.Errorf("%w: %w", errAnswer, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return r, nil
}

// A Body is the call that a tell makes, in the form in which the log keeps it. The log outlives
// programs, so the encoding must not change.
type Body struct {
	Method string
	Args   []byte
	Info   []byte // the caller's metadata of the call, encoded as in an envelope; nil means none
}

const (
	bodyMethod = 1
	bodyArgs   = 2
	bodyInfo   = 3
)

var errBody = errors.New("a tell kept in the log cannot be read (was it written by a newer program? run that version, or a later one, here too)")

// Append appends the encoded body to b.
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

// ReadBody decodes a Body. It refuses unknown fields.
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
