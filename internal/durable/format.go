package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shardgen/shardgen/internal/wire"
)

// formatNow is the format that this program writes. It reads all formats up to it.
const formatNow = 1

// Causes of bytes that cannot be read; test with errors.Is.
var (
	// ErrNewer: a newer program wrote them. Nothing is wrong with them: run that
	// program, or a later one, on this node.
	ErrNewer = errors.New("written by a newer program (run that version, or a later one, here too)")
	// ErrCorrupt: the bytes differ from those that were written.
	ErrCorrupt = errors.New("corrupt (shardctl store verify names all damage, shardctl store repair mends it from an export)")
)

// A stored is an outer message of the data in the store.
type stored interface {
	proto.Message
	GetFormat() uint32
}

const (
	checkTag  = 15<<3 | 5 // field 15, fixed32
	checkSize = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal encodes m, which has its format and no check yet.
func seal(m stored) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, 0, proto.Size(m)+checkSize), m)
	if err != nil {
		panic(err) // no message here has required fields or strings that are not UTF-8
	}
	sum := crc32.Checksum(b, castagnoli)
	return binary.LittleEndian.AppendUint32(append(b, checkTag), sum)
}

// appendRoom bounds the bytes of an append beside its entries.
const appendRoom = 64

// sealAppend is seal for an append whose entries are encoded. It returns them as a part of the
// sealed bytes, too.
func sealAppend(a *wire.DurableAppend, entries []byte) (sealed, within []byte) {
	sealed = appendHead(make([]byte, 0, appendRoom+len(entries)+checkSize), a)
	head := len(sealed)
	sealed = append(sealed, entries...)
	sealed = binary.LittleEndian.AppendUint32(append(sealed, checkTag), crc32.Checksum(sealed, castagnoli))
	return sealed, sealed[head : head+len(entries) : head+len(entries)]
}

// appendHead appends the fields of the append that come before its entries, as encode.go does.
func appendHead(b []byte, a *wire.DurableAppend) []byte {
	b = appendUint(b, 1, uint64(a.Format))
	b = appendFixed(b, 2, a.Epoch)
	b = appendFixed(b, 3, a.Incarnation)
	b = appendUint(b, 4, a.Claim)
	return appendUint(b, 5, a.Counter)
}

// unseal decodes the output of seal. It refuses other bytes, and messages that this
// program would understand only in part.
func unseal(b []byte, m stored) error {
	end := len(b) - checkSize
	if end < 0 || b[end] != checkTag || binary.LittleEndian.Uint32(b[end+1:]) != crc32.Checksum(b[:end], castagnoli) {
		return fmt.Errorf("%w: %d bytes, and their checksum is wrong", ErrCorrupt, len(b))
	}
	if err := proto.Unmarshal(b[:end], m); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if f := m.GetFormat(); f > formatNow {
		return fmt.Errorf("%w: format %d, this program reads up to %d", ErrNewer, f, formatNow)
	} else if f == 0 {
		return fmt.Errorf("%w: it says no format", ErrCorrupt)
	}
	if name := unknown(m.ProtoReflect()); name != "" {
		return fmt.Errorf("%w: %s has fields that this program does not know", ErrNewer, name)
	}
	return nil
}

// unknown names a message with fields that this program does not know, or "".
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

// readAppend decodes an append. An entry of an unknown kind has an unknown field, and so
// does not come here; one of no kind is refused.
func readAppend(b []byte) (*wire.DurableAppend, error) {
	a := &wire.DurableAppend{}
	if err := unseal(b, a); err != nil {
		return nil, err
	}
	for _, e := range a.GetEntries() {
		if e.GetKind() == nil {
			return nil, fmt.Errorf("%w: an entry of no kind", ErrCorrupt)
		}
	}
	return a, nil
}

// claimOf returns the claim that a is, or nil.
func claimOf(a *wire.DurableAppend) *wire.DurableClaim {
	if len(a.GetEntries()) == 1 {
		return a.GetEntries()[0].GetClaim()
	}
	return nil
}
