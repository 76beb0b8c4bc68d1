package singleton

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// format is the version of the encoding, which every message names.
const format = 1

// Bounds of fields on the wire.
const (
	maxNameBytes   = 256
	maxReasonBytes = 1024
)

// Encode encodes a message as defined in internal/wire/coordinator.proto.
func Encode(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode singleton message: %w", err)
	}
	b, err := proto.Marshal(&wire.SingletonMessage{
		Format: format, Name: m.Name, Type: wire.SingletonMessage_Type(m.Type), Handed: m.Handed, Id: m.ID,
		Node: m.Instance.Name, Incarnation: m.Instance.Incarnation, Epoch: uint64(m.Epoch), Reason: m.Reason,
	})
	if err != nil {
		return nil, fmt.Errorf("encode singleton message: %w", err)
	}
	return b, nil
}

// Decode reads what Encode wrote. Other bytes give an error and never a panic.
func Decode(b []byte) (Message, error) {
	var w wire.SingletonMessage
	if err := proto.Unmarshal(b, &w); err != nil {
		return Message{}, bounded.Error(fmt.Errorf("decode singleton message: %w", err))
	}
	if w.GetFormat() != format {
		return Message{}, fmt.Errorf("decode singleton message: format %d (this version reads %d)", w.GetFormat(), format)
	}
	m := Message{
		Name: w.GetName(), Type: MessageType(w.GetType()), Handed: w.GetHanded(), ID: w.GetId(),
		Instance: transport.Address{Name: w.GetNode(), Incarnation: w.GetIncarnation()},
		Epoch:    placement.Epoch(w.GetEpoch()), Reason: w.GetReason(),
	}
	if w.GetType() < 0 || w.GetType() > wire.SingletonMessage_IDENTITY {
		m.Type = 0
	}
	if err := m.check(); err != nil {
		return Message{}, bounded.Error(fmt.Errorf("decode singleton message: %w", err))
	}
	return m, nil
}
