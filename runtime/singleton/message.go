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
// between a client and its [Guide]. The control channel may lose, repeat and reorder messages.
type Message struct {
	Name string // of the singleton
	Type MessageType
	// Handed, in HandOverDone, announces that the instance's state and its waiting calls follow.
	Handed bool
	// ID, in Identify, is repeated in the answering Identity. An Identity that answers no Identify
	// has ID 0.
	ID uint64
	// Instance and Epoch, in Identity, name the node where the instance runs, and its epoch. A zero
	// Instance means that it runs on no node yet, for the given Reason.
	Instance transport.Address
	Epoch    placement.Epoch
	Reason   string
}

// A MessageType is the type of a [Message].
type MessageType uint8

// The messages of the handoff and of the search for the instance, as in Akka's cluster singleton.
const (
	// HandOverToMe is sent by the new oldest member to ask an older, leaving member whether that
	// member has stopped its instance. It is repeated until HandOverDone comes or the receiver is
	// removed.
	HandOverToMe MessageType = iota + 1
	// HandOverInProgress means that its sender got HandOverToMe and is stopping the instance.
	HandOverInProgress
	// HandOverDone means that the sender runs no instance and will never start one.
	HandOverDone
	// TakeOverFromMe means that the sender runs the instance and must give it up. The receiver, the
	// oldest in the sender's view, should ask for the instance.
	TakeOverFromMe
	// Identify means that the sender has calls for the instance and asks whether it
	// runs at the receiver.
	Identify
	// Identity names the node where the instance runs, or the reason why it does not run.
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
		return fmt.Errorf("the singleton's name has %d bytes: want 1 to %d", len(m.Name), maxNameBytes)
	case m.Type < HandOverToMe || m.Type > Identity:
		return fmt.Errorf("unknown message type %v", m.Type)
	case len(m.Reason) > maxReasonBytes:
		return fmt.Errorf("the reason has %d bytes: want at most %d", len(m.Reason), maxReasonBytes)
	case m.Instance.IsZero():
		if m.Epoch != 0 {
			return fmt.Errorf("the message has epoch %v but names no instance", m.Epoch)
		}
		return nil
	case m.Type != Identity || m.Epoch == 0:
		return fmt.Errorf("%v names node %v for the instance, at epoch %v: want an Identity with an epoch", m.Type, m.Instance, m.Epoch)
	}
	return transport.CheckName("node", m.Instance.Name)
}

const format = 1

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

// Decode decodes the result of Encode. For other bytes it returns an error and never panics.
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
