package singleton

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
)

// format is the version of the encoding, which every message names.
const format = 1

// maxNameBytes bounds the name of a singleton on the wire.
const maxNameBytes = 256

// Encode makes bytes of a message, per internal/wire/coordinator.proto.
func Encode(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode singleton message: %w", err)
	}
	b, err := proto.Marshal(&wire.SingletonMessage{Format: format, Name: m.Name, Type: wire.SingletonMessage_Type(m.Type)})
	if err != nil {
		return nil, fmt.Errorf("encode singleton message: %w", err)
	}
	return b, nil
}

// Decode reads what Encode wrote. Other bytes give an error and never a panic.
func Decode(b []byte) (Message, error) {
	var w wire.SingletonMessage
	if err := proto.Unmarshal(b, &w); err != nil {
		return Message{}, fmt.Errorf("decode singleton message: %w", err)
	}
	if w.GetFormat() != format {
		return Message{}, fmt.Errorf("decode singleton message: format %d (this version reads %d)", w.GetFormat(), format)
	}
	m := Message{Name: w.GetName(), Type: MessageType(w.GetType())}
	if w.GetType() < 0 || w.GetType() > wire.SingletonMessage_TAKE_OVER_FROM_ME {
		m.Type = 0
	}
	if err := m.check(); err != nil {
		return Message{}, fmt.Errorf("decode singleton message: %w", err)
	}
	return m, nil
}

func (m Message) check() error {
	if m.Name == "" || len(m.Name) > maxNameBytes {
		return fmt.Errorf("name of %d bytes: want 1 to %d", len(m.Name), maxNameBytes)
	}
	if m.Type < HandOverToMe || m.Type > TakeOverFromMe {
		return fmt.Errorf("unknown type %v", m.Type)
	}
	return nil
}
