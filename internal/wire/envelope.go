package wire

import (
	"fmt"
	"slices"
	"time"
	unsafe "unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// Type is the type of an envelope.
type Type uint32

// The types of envelopes. Numbers are never reused.
const (
	TypeCall    Type = 1  // a call that expects an Answer or a Refusal
	TypeTell    Type = 2  // a call without an answer; it may be refused with Moved
	TypeAnswer  Type = 3  // results of call ID, or the error that Code names
	TypeRefusal Type = 4  // the other direction's envelope Seq was not executed; Code says why
	TypeCancel  Type = 5  // the caller of ID gave up
	TypeFlush   Type = 6  // the sender sends no older call for the shard; the receiver passes the Flush on to the home to which it forwarded the sender's calls or, if it forwarded none, to Node
	TypeFlushed Type = 7  // a Flush of the process Node, passed on by the former home Via; Payload is the home for which the Flush is meant, if the Flush must first follow calls to another home
	TypeBarrier Type = 8  // hold later envelopes for the shard until the Flush through Via comes
	TypeInit    Type = 9  // a shard's state, in parts
	TypeReady   Type = 10 // the new home has the shard's state
	TypeOpen    Type = 11 // the old home has sent everything that waited: run turns
	TypeReject  Type = 12 // the shard cannot be prepared; Text says why
)

// Code says how a call ended. Numbers are never reused.
type Code uint32

// The codes of answers.
const (
	CodeOK          Code = 0
	CodeMethodError Code = 1  // the method returned an error: executed
	CodePanic       Code = 2  // the method panicked: executed
	CodeMoved       Code = 3  // this node is not the shard's home; Epoch and Node name the home
	CodeOverloaded  Code = 4  // a queue is full
	CodeCircular    Code = 5  // the call chain came back to a waiting entity; Text prints it
	CodeUnknownKind Code = 6  // this node does not host the kind
	CodeNoMethod    Code = 7  // the kind has no such method
	CodeBadArgs     Code = 8  // the arguments do not decode
	CodeActivation  Code = 9  // the entity could not be activated
	CodeExpired     Code = 10 // the deadline passed before the turn began
	CodeCanceled    Code = 11 // canceled before the turn began
	CodeTooLarge    Code = 12 // the results exceed the broker's limit: executed
	CodeStopped     Code = 13 // the node stops and no other node takes the shard
	CodeDropped     Code = 14 // accepted, but its shard was lost before the turn began
	CodeNoResult    Code = 15 // the results do not encode: executed
	CodeUnsendable  Code = 16 // a forwarding member cannot send the arguments on: they exceed its broker's limit
	CodeInDoubt     Code = 17 // this home cannot learn whether the call ran to its end; if it was a command, the next home knows
	CodeRefused     Code = 18 // the call did not run, or none of its changes were kept; Text says why
	CodeCommitLarge Code = 19 // the turn's changes exceed one commit of the store, or its results the broker's limit: none of the changes were kept
	CodeForbidden   Code = 20 // its sender has no right to send it; Text says what was wrong
	CodeIntercepted Code = 21 // an interceptor of the host refused it; Text and Payload are its error, as with CodeMethodError
	CodeReused      Code = 22 // another call has the same command id; Text says more
	CodeForgotten   Code = 23 // a call with the same command id has run, but the answer is not kept any more: executed
)

// Executed reports whether an answer with the code means that the call ran.
func (c Code) Executed() bool {
	return c == CodeOK || c == CodeMethodError || c == CodePanic || c == CodeTooLarge || c == CodeNoResult || c == CodeForgotten
}

// An Envelope is one message of the data plane. The byte slices of an Envelope that was read from a
// frame are parts of that frame.
type Envelope struct {
	Type    Type
	ID      uint64
	Kind    []byte
	Shard   uint32
	Epoch   uint64
	Entity  []byte
	Method  []byte
	Timeout uint64 // microseconds until the deadline; 0 means none
	Payload []byte
	Code    Code
	Text    []byte
	Node    transport.Peer
	Chain   []byte
	Seq     uint64
	Last    bool
	Via     transport.Peer
	Hop     uint64 // of a Flush or a Flushed: the epoch of the calls before it; of a forwarded call: not 0 if its sender, Node, sent it to the forwarding home
	Command []byte // of a call to a durable entity: its encoded command id
	Info    []byte // of a call or a tell: an encoded Info; nil means the zero Info
}

const (
	envType    = 1
	envID      = 2
	envKind    = 3
	envShard   = 4
	envEpoch   = 5
	envEntity  = 6
	envMethod  = 7
	envTimeout = 8
	envPayload = 9
	envCode    = 10
	envText    = 11
	envNode    = 12
	envChain   = 13
	envSeq     = 14
	envLast    = 15
	envVia     = 16
	envHop     = 17
	envCommand = 18
	envInfo    = 19
)

// Overhead bounds the bytes of an encoded envelope without its byte slices.
const Overhead = 160

// SizeBound returns an upper bound of the envelope's encoded size in a frame.
func (e *Envelope) SizeBound() int {
	return Overhead + len(e.Kind) + len(e.Entity) + len(e.Method) + len(e.Payload) +
		len(e.Text) + len(e.Node.Name) + len(e.Chain) + len(e.Via.Name) + len(e.Command) + len(e.Info)
}

// KeptSize returns the bytes of a waiting call that count toward the limits of waiting bytes.
func (e *Envelope) KeptSize() int {
	return len(e.Payload) + len(e.Entity) + len(e.Method) + len(e.Chain) + len(e.Command) + len(e.Info)
}

// Relayed reports whether a call or a tell came through a process that is not its sender. If so,
// Node is the sender; otherwise Node is the zero Peer.
func (e *Envelope) Relayed() bool { return e.Node.Address != transport.Address{} }

// MayComeFrom reports whether a process outside the cluster may send the envelope. class is the
// class of that process, and not Member. A client may send its own calls and tells, with their Cancel,
// Flush and Barrier. It may not send calls forwarded by a member or made by a turn. Only members send
// answers, and what the homes of a moving shard send each other.
func (e *Envelope) MayComeFrom(class identity.Class, of Members) bool {
	if class != identity.Client {
		return false // operators have no part in the data plane
	}
	switch e.Type {
	case 0, TypeCancel:
		return true
	case TypeCall, TypeTell:
		return !e.Relayed() && len(e.Chain) == 0 && (len(e.Info) == 0 || mayClientSay(e.Info))
	case TypeFlush:
		// It is passed on to the named member, with which its receiver may begin a session. The
		// member may have been removed while the Flush was on its way.
		return e.Node.IsZero() || isMember(e.Node) && of.Knows(e.Node.Address)
	case TypeBarrier:
		return isMember(e.Via) // which may have left
	}
	return false
}

// Deadline returns the deadline of a call; at is when the call arrived. Both times are in
// nanoseconds after the process's base. A deadline of 0 means none.
func (e *Envelope) Deadline(at int64) int64 {
	if e.Timeout == 0 {
		return 0
	}
	return at + int64(time.Duration(min(e.Timeout, 1<<50))*time.Microsecond)
}

// AppendEnvelope appends the envelope to the bytes of a frame. The length before the envelope is
// written last, so its size is fixed: three bytes, or five from 2 MiB on. Protobuf readers accept
// lengths of this form.
func AppendEnvelope(b []byte, e *Envelope) []byte {
	size := e.SizeBound()
	width := 3
	if size >= 1<<21 {
		width = 5
	}
	b = appendTag(slices.Grow(b, size), frameEnvelopes, protowire.BytesType)
	at := len(b)
	b = appendEnvelopeFields(b[:at+width], e)
	n := len(b) - at - width
	for i := range width {
		b[at+i] = byte(n>>(7*i))&0x7f | 0x80
	}
	b[at+width-1] &= 0x7f
	return b
}

// VoidEnvelope overwrites the type of the encoded envelope at the start of b, so that readers skip
// the envelope. It returns false if b does not begin with an envelope whose first field is the
// type.
func VoidEnvelope(b []byte) bool {
	_, _, n := protowire.ConsumeTag(b)
	if n < 0 {
		return false
	}
	v, m := protowire.ConsumeBytes(b[n:])
	if m < 0 || len(v) < 2 || v[0] != byte(protowire.EncodeTag(envType, protowire.VarintType)) || v[1] >= 0x80 {
		return false
	}
	v[1] = 0
	return true
}

// appendEnvelopeFields appends the encoded fields. b must have room for SizeBound bytes, because
// the capacity is not always checked.
func appendEnvelopeFields(b []byte, e *Envelope) []byte {
	n, room := len(b), b[:cap(b)]
	n = putUint(room, n, envType<<3|varint, uint64(e.Type))
	n = putUint(room, n, envID<<3|varint, e.ID)
	n = putBytes(room, n, envKind<<3|lengthed, e.Kind)
	n = putUint(room, n, envShard<<3|varint, uint64(e.Shard))
	n = putUint(room, n, envEpoch<<3|varint, e.Epoch)
	n = putBytes(room, n, envEntity<<3|lengthed, e.Entity)
	n = putBytes(room, n, envMethod<<3|lengthed, e.Method)
	n = putUint(room, n, envTimeout<<3|varint, e.Timeout)
	n = putBytes(room, n, envPayload<<3|lengthed, e.Payload)
	n = putUint(room, n, envCode<<3|varint, uint64(e.Code))
	n = putBytes(room, n, envText<<3|lengthed, e.Text)
	b = room[:n]
	b = appendPeer(b, envNode, e.Node)
	b = appendBytes(b, envChain, e.Chain)
	b = appendUint(b, envSeq, e.Seq)
	if e.Last {
		b = appendUint(b, envLast, 1)
	}
	b = appendPeer(b, envVia, e.Via)
	b = appendUint(b, envHop, e.Hop)
	b = appendBytes(b, envCommand, e.Command)
	return appendBytes(b, envInfo, e.Info)
}

func appendPeer(b []byte, num protowire.Number, p transport.Peer) []byte {
	if p == (transport.Peer{}) {
		return b
	}
	return appendBytes(b, num, AppendPeer(nil, p))
}

const (
	varint   = byte(protowire.VarintType)
	lengthed = byte(protowire.BytesType)
)

// putUint writes a field at index n, unless v is zero, and returns the next index.
func putUint(b []byte, n int, tag byte, v uint64) int {
	if v == 0 {
		return n
	}
	b[n] = tag
	for n++; v >= 0x80; n++ {
		b[n] = byte(v) | 0x80
		v >>= 7
	}
	b[n] = byte(v)
	return n + 1
}

// putBytes writes a field at index n, unless v is empty, and returns the next index.
func putBytes(b []byte, n int, tag byte, v []byte) int {
	if len(v) == 0 {
		return n
	}
	n = putUint(b, n, tag, uint64(len(v)))
	return n + copy(b[n:], v)
}

// NextEnvelope parses the first envelope in b into e, and returns the bytes after the envelope. b
// is the rest that Header or NextEnvelope returned. ok is false if there is no envelope.
func NextEnvelope(b []byte, e *Envelope) (rest []byte, ok bool, err error) {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return nil, false, malformed("envelope tag", n)
		}
		b = b[n:]
		if num != frameEnvelopes || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return nil, false, malformed("frame field", n)
			}
			b = b[n:]
			continue
		}
		v, n := consumeBytes(b)
		if n < 0 {
			return nil, false, malformed("envelope", n)
		}
		*e = Envelope{}
		return b[n:], true, e.parse(v)
	}
	return nil, false, nil
}

func (e *Envelope) parse(b []byte) error {
	for i := 0; i < len(b); {
		// Nearly every tag, number and length takes one or few bytes. All others, and errors, are
		// left to protowire.
		num, typ := protowire.Number(b[i]>>3), b[i]&7
		i++
		if num == 0 || num > 15 {
			var t protowire.Type
			var n int
			if num, t, n = protowire.ConsumeTag(b[i-1:]); n < 0 {
				return malformed("envelope field", n)
			}
			typ = byte(t)
			i += n - 1
		}
		if typ != varint && typ != lengthed {
			n := protowire.ConsumeFieldValue(num, protowire.Type(typ), b[i:])
			if n < 0 {
				return malformed("envelope value", n)
			}
			i += n
			continue
		}
		var v uint64
		if i < len(b) && b[i] < 0x80 {
			v = uint64(b[i])
			i++
		} else {
			var n int
			if v, n = protowire.ConsumeVarint(b[i:]); n < 0 {
				return malformed("envelope value", n)
			}
			i += n
		}
		if typ == varint {
			e.setUint(num, v)
			continue
		}
		if v > uint64(len(b)-i) {
			return malformedText("envelope value", "it is cut off")
		}
		end := i + int(v)
		if err := e.setBytes(num, b[i:end:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

func (e *Envelope) setUint(num protowire.Number, v uint64) {
	switch num {
	case envType:
		e.Type = Type(v)
	case envID:
		e.ID = v
	case envShard:
		e.Shard = uint32(v)
	case envEpoch:
		e.Epoch = v
	case envTimeout:
		e.Timeout = v
	case envCode:
		e.Code = Code(v)
	case envSeq:
		e.Seq = v
	case envLast:
		e.Last = v != 0
	case envHop:
		e.Hop = v
	}
}

func (e *Envelope) setBytes(num protowire.Number, v []byte) (err error) {
	switch num {
	case envKind:
		e.Kind = v
	case envEntity:
		e.Entity = v
	case envMethod:
		e.Method = v
	case envPayload:
		e.Payload = v
	case envText:
		e.Text = v
	case envNode:
		e.Node, err = ParsePeer(v)
	case envChain:
		e.Chain = v
	case envVia:
		e.Via, err = ParsePeer(v)
	case envCommand:
		e.Command = v
	case envInfo:
		e.Info = v
	}
	return err
}

// AppendPeer appends an encoded peer.
func AppendPeer(b []byte, p transport.Peer) []byte {
	b = appendString(b, 1, p.Name)
	b = protowire.AppendTag(b, 2, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, p.Incarnation)
	if p.Client {
		b = appendUint(b, 3, 1)
	}
	return b
}

// ParsePeer reads the peer that AppendPeer wrote. Empty bytes give the zero Peer.
func ParsePeer(b []byte) (p transport.Peer, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return p, malformed("node", n)
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			p.Name = string(v)
		case num == 2 && typ == protowire.Fixed64Type:
			p.Incarnation, n = protowire.ConsumeFixed64(b)
		case num == 3 && typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			p.Client = v != 0
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return p, malformed("node field", n)
		}
		b = b[n:]
	}
	if err := transport.CheckName("node", p.Name); err != nil {
		return p, fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return p, nil
}

// BytesOf returns a string as a field of an envelope, without a copy. The bytes must not be
// changed.
func BytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// StringOf returns a field of an envelope as a string, without a copy. b must not be changed any
// more.
func StringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
