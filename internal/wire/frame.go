package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/transport"
)

// FrameVersion is the version of the frame format that this program writes. The program reads every
// version from 1 to FrameVersion, and skips fields that it does not know. It refuses a higher
// version, because fields may have another meaning in that version.
const FrameVersion = 1

// Flags of a frame.
const (
	// FlagNack: the sender misses a frame, and asks for the envelopes after Ack again.
	FlagNack = 1 << iota
	// FlagAckNow: the sender asks for an acknowledgement at once.
	FlagAckNow
	// FlagBye: the sender will handle nothing beyond Ack and send nothing more.
	FlagBye
)

// ErrFrame is wrapped by every error of reading a frame or an envelope.
var ErrFrame = errors.New("malformed frame")

// A FrameHeader is a frame without its envelopes.
type FrameHeader struct {
	Version uint32
	From    transport.Peer
	Seq     uint64
	Count   uint32
	// Ack: every envelope of the other direction up to this sequence number was handled. If any of
	// them was refused, the refusal is in this frame or an earlier one.
	Ack uint64
	// Handled: every envelope of the other direction up to this sequence number was handled, but
	// refusals may not have been sent yet. It is at least Ack. The window of unacknowledged
	// envelopes counts from Handled: otherwise two peers that refuse each other's calls would wait
	// for each other.
	Handled uint64
	Window  uint64
	Flags   uint32
	// Session is the number that a member gave its session with a client. It is 0 in frames between
	// members, and in frames of a client that does not know the number yet.
	Session uint64
	// Hello is the number that a client gave its session with a member. It is set in a client's
	// frames that ask for Session, and in the member's answer to these. Otherwise it is 0.
	Hello uint64
}

const (
	frameVersion     = 1
	frameFrom        = 2
	frameIncarnation = 3
	frameClient      = 4
	frameSeq         = 5
	frameCount       = 6
	frameAck         = 7
	frameWindow      = 8
	frameFlags       = 9
	frameHandled     = 10
	frameSession     = 11
	frameHello       = 12
	frameEnvelopes   = 15
)

// MaxFrameHeader bounds the bytes of an encoded header.
const MaxFrameHeader = transport.MaxNameBytes + 104

// AppendFrameHeader appends the header; the envelopes follow it.
func AppendFrameHeader(b []byte, h *FrameHeader) []byte {
	b = appendUint(b, frameVersion, uint64(h.Version))
	b = appendString(b, frameFrom, h.From.Name)
	b = protowire.AppendTag(b, frameIncarnation, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, h.From.Incarnation)
	if h.From.Client {
		b = appendUint(b, frameClient, 1)
	}
	b = appendUint(b, frameSeq, h.Seq)
	b = appendUint(b, frameCount, uint64(h.Count))
	b = appendUint(b, frameAck, h.Ack)
	b = appendUint(b, frameWindow, h.Window)
	b = appendUint(b, frameFlags, uint64(h.Flags))
	if h.Handled > h.Ack {
		b = appendUint(b, frameHandled, h.Handled)
	}
	b = appendUint(b, frameSession, h.Session)
	return appendUint(b, frameHello, h.Hello)
}

// names keeps the last sender's name. So frames from one peer allocate no strings, and each name is
// checked once.
type names struct {
	last  string
	valid string // the last name that check accepted; "" means none
}

func (n *names) get(b []byte) string {
	if n.last != string(b) {
		n.last = string(b)
	}
	return n.last
}

// check returns an error unless text is a valid name. text must be the result of [names.get].
func (n *names) check(text string) error {
	if text != "" && text == n.valid {
		return nil
	}
	if err := transport.CheckName("sender", text); err != nil {
		return err
	}
	n.valid = text
	return nil
}

// A FrameReader parses the headers of frames. It keeps the last sender's name, so that further
// frames of the same sender allocate no strings. The zero value is ready to use. It is not safe for
// concurrent use.
type FrameReader struct{ names names }

// Header parses the header of a frame and returns the bytes behind it: envelopes, for
// [NextEnvelope]. Header does not read header fields after the first envelope, because no version
// writes them there.
func (r *FrameReader) Header(b []byte) (h FrameHeader, rest []byte, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return h, nil, malformed("frame tag", n)
		}
		if num == frameEnvelopes {
			break
		}
		b = b[n:]
		n = r.field(&h, num, typ, b)
		if n < 0 {
			return h, nil, malformed("frame header", n)
		}
		b = b[n:]
	}
	if h.Version == 0 {
		return h, nil, fmt.Errorf("%w: no version (foreign bytes on this subject?)", ErrFrame)
	}
	if h.Version > FrameVersion {
		return h, nil, fmt.Errorf("%w: format version %d, this program reads up to %d (upgrade this program first)", ErrFrame, h.Version, FrameVersion)
	}
	if err := r.names.check(h.From.Name); err != nil {
		return h, nil, fmt.Errorf("%w: %v", ErrFrame, err)
	}
	h.Handled = max(h.Handled, h.Ack)
	return h, b, nil
}

func (r *FrameReader) field(h *FrameHeader, num protowire.Number, typ protowire.Type, b []byte) int {
	switch {
	case num == frameFrom && typ == protowire.BytesType:
		v, n := protowire.ConsumeBytes(b)
		if n >= 0 {
			h.From.Name = r.names.get(v)
		}
		return n
	case num == frameIncarnation && typ == protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(b)
		h.From.Incarnation = v
		return n
	case typ != protowire.VarintType:
		return protowire.ConsumeFieldValue(num, typ, b)
	}
	v, n := protowire.ConsumeVarint(b)
	switch num {
	case frameVersion:
		h.Version = uint32(v)
	case frameClient:
		h.From.Client = v != 0
	case frameSeq:
		h.Seq = v
	case frameCount:
		h.Count = uint32(v)
	case frameAck:
		h.Ack = v
	case frameWindow:
		h.Window = v
	case frameFlags:
		h.Flags = uint32(v)
	case frameHandled:
		h.Handled = v
	case frameSession:
		h.Session = v
	case frameHello:
		h.Hello = v
	}
	return n
}

func malformed(what string, n int) error {
	return fmt.Errorf("%w: %s: %v", ErrFrame, what, protowire.ParseError(n))
}

func malformedText(what, text string) error {
	return fmt.Errorf("%w: %s: %s", ErrFrame, what, text)
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendTag(b, num, protowire.VarintType), v)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = appendVarint(appendTag(b, num, protowire.BytesType), uint64(len(s)))
	return append(b, s...)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	b = appendVarint(appendTag(b, num, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// appendTag is protowire.AppendTag, faster for one-byte tags.
func appendTag(b []byte, num protowire.Number, t protowire.Type) []byte {
	if num < 16 {
		return append(b, byte(num)<<3|byte(t))
	}
	return protowire.AppendTag(b, num, t)
}

// appendVarint is protowire.AppendVarint, faster for small numbers.
func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// consumeTag is protowire.ConsumeTag, faster for one-byte tags.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if len(b) > 0 && b[0] < 0x80 && b[0] >= 8 {
		return protowire.Number(b[0] >> 3), protowire.Type(b[0] & 7), 1
	}
	return protowire.ConsumeTag(b)
}

// consumeBytes is protowire.ConsumeBytes, faster for short lengths.
func consumeBytes(b []byte) ([]byte, int) {
	if len(b) > 0 && b[0] < 0x80 {
		if n := int(b[0]) + 1; n <= len(b) {
			return b[1:n:n], n
		}
	}
	v, n := protowire.ConsumeBytes(b)
	return v[:len(v):len(v)], n
}
