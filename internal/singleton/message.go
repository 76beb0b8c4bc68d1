package singleton

import (
	"fmt"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Message is one word between two managers of one singleton, or between a
// proxy and a manager. The control channel may lose, repeat and reorder it.
type Message struct {
	Name string // of the singleton
	Type MessageType
	// Handed, in HandOverDone: the state and the calls that waited follow.
	Handed bool
	// ID, in Identify, is repeated by the Identity that answers it. 0 in an
	// Identity that nobody asked for.
	ID uint64
	// Instance and Epoch, in Identity: where the instance runs. A zero Instance:
	// nowhere yet, and Reason says why.
	Instance transport.Address
	Epoch    placement.Epoch
	Reason   string
}

// A MessageType is the kind of a [Message].
type MessageType uint8

// The messages of the hand-over and of the search, as in Akka's cluster
// singleton.
const (
	// HandOverToMe: the sender is the oldest now and asks whether the receiver,
	// an older member that leaves, has stopped its instance. It is sent again
	// until HandOverDone comes or the receiver is removed.
	HandOverToMe MessageType = iota + 1
	// HandOverInProgress: the receiver of HandOverToMe is stopping its instance.
	HandOverInProgress
	// HandOverDone: the sender runs no instance and will never start one.
	HandOverDone
	// TakeOverFromMe: the sender runs the instance and must not go on; the
	// receiver is the oldest by the sender's view and shall ask for it.
	TakeOverFromMe
	// Identify: the sender has calls for the instance and asks whether it runs at
	// the receiver.
	Identify
	// Identity: where the instance runs, or why it does not.
	Identity
)

// String names the message.
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
			return fmt.Errorf("epoch %v of nobody's", m.Epoch)
		}
		return nil
	case m.Type != Identity || m.Epoch == 0:
		return fmt.Errorf("%v names %v as the instance's node, at epoch %v", m.Type, m.Instance, m.Epoch)
	}
	return transport.CheckName("node", m.Instance.Name)
}
