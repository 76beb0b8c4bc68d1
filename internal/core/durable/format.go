package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shardgen/shardgen/internal/wire"
)

const formatNow = 1

// Reasons why stored bytes cannot be read; test with errors.Is.
var (
	// ErrNewer: a newer program wrote the bytes. Nothing is wrong with them: run that program, or a
	// later one, on this node.
	ErrNewer = errors.New("written by a newer program (run that version, or a later one, here too)")
	// ErrCorrupt: the bytes differ from those that a program wrote.
	ErrCorrupt = errors.New("corrupt (shardctl store verify names all damage, shardctl store repair mends it from an export)")
)

type stored interface {
	proto.Message
	GetFormat() uint32
}

const (
	checkTag  = 15<<3 | 5 // field 15, fixed32
	checkSize = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal encodes m deterministically, with a checksum.
func seal(m stored) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, 0, proto.Size(m)+checkSize), m)
	if err != nil {
		panic(err) // no message here has required fields or strings that are not UTF-8
	}
	sum := crc32.Checksum(b, castagnoli)
	return binary.LittleEndian.AppendUint32(append(b, checkTag), sum)
}

// appendRoom bounds the bytes of an append without its entries.
const appendRoom = 64

// sealAppend encodes an append, as seal does, from its already encoded entries. within is the part
// of sealed that has the entries.
func sealAppend(a *wire.DurableAppend, entries []byte) (sealed, within []byte) {
	sealed = appendHead(make([]byte, 0, appendRoom+len(entries)+checkSize), a)
	head := len(sealed)
	sealed = append(sealed, entries...)
	sealed = binary.LittleEndian.AppendUint32(append(sealed, checkTag), crc32.Checksum(sealed, castagnoli))
	return sealed, sealed[head : head+len(entries) : head+len(entries)]
}

func appendHead(b []byte, a *wire.DurableAppend) []byte {
	b = appendUint(b, 1, uint64(a.Format))
	b = appendFixed(b, 2, a.Epoch)
	b = appendFixed(b, 3, a.Incarnation)
	b = appendUint(b, 4, a.Claim)
	return appendUint(b, 5, a.Counter)
}

// unseal fails with ErrCorrupt if the checksum is wrong, and with ErrNewer if the format or a
// field is unknown.
func unseal(b []byte, m stored) error {
	end := len(b) - checkSize
	if end < 0 || b[end] != checkTag || binary.LittleEndian.Uint32(b[end+1:]) != crc32.Checksum(b[:end], castagnoli) {
		return fmt.Errorf("%w: wrong checksum of %d bytes", ErrCorrupt, len(b))
	}
	if err := proto.Unmarshal(b[:end], m); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if f := m.GetFormat(); f > formatNow {
		return fmt.Errorf("%w: format %d, this program reads up to %d", ErrNewer, f, formatNow)
	} else if f == 0 {
		return fmt.Errorf("%w: the bytes have no format", ErrCorrupt)
	}
	if name := unknown(m.ProtoReflect()); name != "" {
		return fmt.Errorf("%w: %s has fields that this program does not know", ErrNewer, name)
	}
	return nil
}

// unknown returns the name of m, or of a message inside m, if that has unknown fields; otherwise
// "".
func unknown(m protoreflect.Message) (name string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && name == ""; i++ {
				name = unknown(v.List().Get(i).Message())
			}
		default:
			name = unknown(v.Message())
		}
		return name == ""
	})
	return name
}

func readAppend(b []byte) (*wire.DurableAppend, error) {
	a := &wire.DurableAppend{}
	if err := unseal(b, a); err != nil {
		return nil, err
	}
	for _, e := range a.GetEntries() {
		if e.GetKind() == nil {
			return nil, fmt.Errorf("%w: an append has an entry without a kind", ErrCorrupt)
		}
	}
	return a, nil
}

func claimOf(a *wire.DurableAppend) *wire.DurableClaim {
	if len(a.GetEntries()) == 1 {
		return a.GetEntries()[0].GetClaim()
	}
	return nil
}

// This file writes commits field by field, because nearly all entries of logs are commits, and the
// protobuf library takes five times as long: it goes through a table of the fields twice, first for
// the sizes. The bytes are those of the library with Deterministic, as a test checks: fields in the
// order of their numbers, without zero values. A decoded commit may have unknown fields; it must
// not be encoded by these functions.

const (
	entriesField = 6
	commitField  = 2
	sourceField  = 1
)

// appendEntry encodes e as a field of an append. source is the command's encoded source, or nil.
func appendEntry(b []byte, e *wire.DurableEntry, source []byte) []byte {
	if c := e.GetCommit(); c != nil {
		about := len(c.Entity) + len(c.State) + len(c.GetCommand().GetAnswer()) + appendRoom
		b, whole := begin(b, entriesField, about)
		b, inner := begin(b, commitField, about)
		return whole.end(inner.end(appendCommit(b, c, source)))
	}
	return appendMessage(b, entriesField, e)
}

func appendCommit(b []byte, c *wire.DurableCommit, source []byte) []byte {
	b = appendBytes(b, 1, c.Entity)
	b = appendUint(b, 2, c.Version)
	b = appendBytes(b, 3, c.State)
	b = appendUint(b, 4, one(c.Ended))
	if c.Command != nil {
		b = appendCommand(b, 5, c.Command, source)
	}
	for _, t := range c.Tells { // which are rare
		b = appendMessage(b, 6, t)
	}
	b = appendUint(b, 7, uint64(c.At))
	for _, e := range c.Events {
		b = protowire.AppendBytes(append(b, 8<<3|byte(protowire.BytesType)), e)
	}
	b = appendUint(b, 9, c.Event)
	b = appendUint(b, 10, one(c.Folded))
	if c.Reminders != nil {
		b = appendMessage(b, 11, c.Reminders)
	}
	b = appendUint(b, 13, uint64(c.Keys))
	b = appendUint(b, 14, uint64(c.Expires))
	b = appendUint(b, 15, uint64(c.Form))
	if c.Sum != 0 { // its number takes two bytes
		b = protowire.AppendVarint(protowire.AppendTag(b, 16, protowire.VarintType), uint64(c.Sum))
	}
	if c.Index != nil {
		inner := appendBytes(appendBytes(nil, 1, c.Index.Keys), 2, c.Index.Removed)
		b = protowire.AppendBytes(protowire.AppendTag(b, 17, protowire.BytesType), inner)
	}
	return b
}

func appendCommand(b []byte, field byte, c *wire.DurableCommand, source []byte) []byte {
	b, l := begin(b, field, len(c.Answer)+appendRoom)
	if source == nil && c.Source != nil {
		source = appendSource(nil, sourceField, c.Source)
	}
	b = append(b, source...)
	b = appendUint(b, 2, c.Number)
	b = appendBytes(b, 3, c.Path)
	b = appendUint(b, 4, c.Floor)
	b = appendFixed(b, 5, c.Hash)
	b = appendBytes(b, 6, c.Answer)
	return l.end(appendBytes(b, 7, c.Key))
}

func appendSource(b []byte, field byte, s *wire.DurableSource) []byte {
	if !utf8.ValidString(s.Log) || !utf8.ValidString(s.To) {
		panic(fmt.Sprintf("a source of commands is not UTF-8: %q, %q", s.Log, s.To)) // it could never be read
	}
	b, l := begin(b, field, 0)
	b = appendFixed(b, 1, s.Incarnation)
	b = appendBytes(b, 2, s.Log)
	b = appendUint(b, 3, uint64(s.Shard))
	b = appendBytes(b, 4, s.To)
	return l.end(appendUint(b, 5, uint64(s.ToShard)))
}

func appendMessage(b []byte, field byte, m proto.Message) []byte {
	b = protowire.AppendVarint(append(b, field<<3|byte(protowire.BytesType)), uint64(proto.Size(m)))
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		panic(err) // as in seal
	}
	return b
}

// Each function below appends one field, whose number is at most 15, or nothing if the value is
// zero.

func appendUint(b []byte, field byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, field<<3|byte(protowire.VarintType)), v)
}

func one(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func appendFixed(b []byte, field byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(append(b, field<<3|byte(protowire.Fixed64Type)), v)
}

func appendBytes[T string | []byte](b []byte, field byte, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return append(binary.AppendUvarint(append(b, field<<3|byte(protowire.BytesType)), uint64(len(v))), v...)
}

// length is the place reserved for the encoded length of a message.
type length struct {
	at   int // its place
	room int // the bytes that are kept for it
}

// begin appends a field's tag, and reserves room for the length of a message of about the given
// size. end moves the message if its length takes more or less room.
func begin(b []byte, field byte, about int) ([]byte, length) {
	b = append(b, field<<3|byte(protowire.BytesType))
	l := length{len(b), protowire.SizeVarint(uint64(about))}
	return append(b, make([]byte, l.room)...), l
}

func (l length) end(b []byte) []byte {
	n := len(b) - l.at - l.room
	if size := protowire.SizeVarint(uint64(n)); size != l.room {
		b = append(b, make([]byte, size)...) // at least as much as the message may move
		copy(b[l.at+size:], b[l.at+l.room:l.at+l.room+n])
		b = b[:l.at+size+n]
	}
	binary.PutUvarint(b[l.at:], uint64(n))
	return b
}

type commitMessages struct {
	entry   wire.DurableEntry
	kind    wire.DurableEntry_Commit
	commit  wire.DurableCommit
	command wire.DurableCommand
}

type messages struct{ spare []*commitMessages }

const spareMessages = 64

func (m *messages) get() *commitMessages {
	n := len(m.spare)
	if n == 0 {
		return &commitMessages{}
	}
	c := m.spare[n-1]
	m.spare = m.spare[:n-1]
	return c
}

// put keeps c for reuse; the caller must not use c any more. c may be nil.
func (m *messages) put(c *commitMessages) {
	if c == nil || len(m.spare) == spareMessages {
		return
	}
	*c = commitMessages{} // Reset of each would also register its type again
	m.spare = append(m.spare, c)
}
