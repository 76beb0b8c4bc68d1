package durablehost

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Reply is the answer to a command, as the log keeps it for callers that ask again.
type Reply struct {
	Code    uint32 // of package wire; 0 means results
	Text    string // of an error
	Payload []byte // encoded results, or an error's causes
}

// Fields of a reply. They outlive programs: a number keeps its meaning for ever.
const (
	replyCode    = 1
	replyText    = 2
	replyPayload = 3
)

// replyRoom bounds the bytes of a reply beside its text and payload.
const replyRoom = 20

var errReply = errors.New("a kept reply cannot be read (was it written by a newer program? run that version, or a later one, here too)")

// Append appends the encoded reply.
func (r Reply) Append(b []byte) []byte {
	b = slices.Grow(b, replyRoom+len(r.Text)+len(r.Payload))
	if r.Code != 0 {
		b = protowire.AppendTag(b, replyCode, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(r.Code))
	}
	if r.Text != "" {
		b = protowire.AppendTag(b, replyText, protowire.BytesType)
		b = protowire.AppendString(b, r.Text)
	}
	if len(r.Payload) > 0 {
		b = protowire.AppendTag(b, replyPayload, protowire.BytesType)
		b = protowire.AppendBytes(b, r.Payload)
	}
	return b
}

// ReadReply decodes a reply. It refuses fields that it does not know, since a
// caller must not get less than the answer.
func ReadReply(b []byte) (r Reply, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Reply{}, fmt.Errorf("%w: %w", errReply, protowire.ParseError(n))
		}
		b = b[n:]
		switch {
		case number == replyCode && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			r.Code = uint32(v)
		case number == replyText && kind == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			r.Text = string(v)
		case number == replyPayload && kind == protowire.BytesType:
			r.Payload, n = protowire.ConsumeBytes(b)
		default:
			return Reply{}, fmt.Errorf("%w: field %d", errReply, number)
		}
		if n < 0 {
			return Reply{}, fmt.Errorf("%w: %w", errReply, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return r, nil
}
