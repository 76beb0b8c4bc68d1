package singleton

import "fmt"

// A Message is one word of the hand-over between two managers of one singleton.
// The control channel may lose, repeat and reorder it.
type Message struct {
	Name string // of the singleton
	Type MessageType
}

// A MessageType says what a [Message] means.
type MessageType uint8

// The messages of the hand-over, as in Akka's cluster singleton.
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
	}
	return fmt.Sprintf("MessageType(%d)", uint8(t))
}
