package singleton

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
	"google.golang.org/protobuf/proto"
)

// A Message is sent between two managers of one singleton, between a proxy and a manager, or
// between a client and the member that guides it. The control channel may lose, repeat and reorder it.
type Message struct {
	Name string // of the singleton
	Type MessageType
	// Handed, in HandOverDone, announces that the state and the waiting calls
	// follow.
	Handed bool
	// ID, in Identify, is repeated in the Identity that answers it. It is 0 in an
	// unsolicited Identity.
	ID uint64
	// Instance and Epoch, in Identity, say where the instance runs. If Instance is
	// zero, it runs nowhere yet, for the given Reason.
	Instance transport.Address
	Epoch    placement.Epoch
	Reason   string
}

// A MessageType is the kind of a [Message].
type MessageType uint8

// The messages of the handoff and of the search, as in Akka's cluster
// singleton.
const (
	// HandOverToMe is sent by the oldest now, to ask an older, leaving member whether it has
	// stopped its instance. It is sent again until HandOverDone comes or the receiver is removed.
	HandOverToMe MessageType = iota + 1
	// HandOverInProgress means that the receiver of HandOverToMe is stopping its
	// instance.
	HandOverInProgress
	// HandOverDone means that the sender runs no instance and will never start one.
	HandOverDone
	// TakeOverFromMe means that the sender runs the instance and has to give it up.
	// The receiver is the oldest in the sender's view and should ask for it.
	TakeOverFromMe
	// Identify means that the sender has calls for the instance and asks whether it
	// runs at the receiver.
	Identify
	// Identity says where the instance runs, or why it does not run.
	Identity
)

// String returns the name of the message.
func (t MessageType) String() string {
	switch t {
	case HandOverToMe:
		return "HandOverToMe"
	case HandOverInProgress:
		return "HandOverInProgress"
	case HandOverDone:
		return "HandOverDone"
	case TakeOverFromMe:
		return "TakeOverFromMe"
	case Identify:
		return "Identify"
	case Identity:
		return "Identity"
	}
	return fmt.Sprintf("MessageType(%d)", uint8(t))
}

func (m Message) check() error {
	switch {
	case m.Name == "" || len(m.Name) > maxNameBytes:
		return fmt.Errorf("name of %d bytes: want 1 to %d", len(m.Name), maxNameBytes)
	case m.Type < HandOverToMe || m.Type > Identity:
		return fmt.Errorf("unknown type %v", m.Type)
	case len(m.Reason) > maxReasonBytes:
		return fmt.Errorf("reason of %d bytes: want at most %d", len(m.Reason), maxReasonBytes)
	case m.Instance.IsZero():
		if m.Epoch != 0 {
			return fmt.Errorf("epoch %v without an instance", m.Epoch)
		}
		return nil
	case m.Type != Identity || m.Epoch == 0:
		return fmt.Errorf("%v names %v as the instance's node, at epoch %v", m.Type, m.Instance, m.Epoch)
	}
	return transport.CheckName("node", m.Instance.Name)
}

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
