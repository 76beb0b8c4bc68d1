package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/shardgen/shardgen/internal/wire/identity"
)

// Errors of a [Link]. Adapters wrap them; test with errors.Is.
var (
	// ErrDisconnected: the channel has no connection to a broker now, and the payload was
	// not sent. Wait for State.Connected and send again.
	ErrDisconnected = errors.New("not connected to the broker")
	// ErrTooLarge: the payload exceeds Link.MaxPayload; nothing was sent.
	ErrTooLarge = errors.New("payload exceeds the broker's limit")
	// ErrClosed: the link was closed, or drained and read to its end.
	ErrClosed = errors.New("link closed")
)

// A Channel is one independent order of messages on a connection of its own. Lanes are
// numbered from 0; Control carries everything that must not wait behind data.
type Channel int

// Control is the control channel.
const Control Channel = -1

// MaxLanes bounds the lanes of a link, each of which is a connection.
const MaxLanes = 64

// A Transport opens links to a broker. It is safe for concurrent use.
type Transport interface {
	// Open connects every channel of one process, subscribes, and returns once
	// the broker has confirmed the subscriptions; only those for Anycast wait for
	// Link.Serve. It fails when ctx ends first, with the address that could not be
	// reached.
	Open(ctx context.Context, o Options) (Link, error)
}

// Options configure a link.
type Options struct {
	Cluster string  // 1 to 64 of [A-Za-z0-9_-]
	Self    Address // the name obeys the same rule
	// Client is set for processes that are no members: clients of the cluster, and operators. The
	// two highest bits of Self's incarnation give the role: 0 for members, 1 for clients, 2 for
	// read-only operators, 3 for commanding operators.
	Client bool
	Lanes  int // number of lanes, 1 to MaxLanes
	// OnState is called with each change of a channel's connection, also with the first,
	// before Open returns. Calls for one channel come one after another, and none after
	// Close. After a connection broke, no Send succeeds on that channel before OnState
	// has returned from its call, so the lost messages can be sent first. It must not
	// block, nor call Close.
	OnState func(Channel, State)
	Logger  *slog.Logger // nil discards
}

// Validate returns the reason why o cannot open a link; adapters call it first.
func (o Options) Validate() error {
	if err := CheckName("cluster", o.Cluster); err != nil {
		return err
	}
	if err := CheckName("node", o.Self.Name); err != nil {
		return err
	}
	if class := identity.Of(o.Self.Incarnation); o.Client != (class != identity.Member) {
		return fmt.Errorf("incarnation %016x belongs to a %v, and Options.Client is %v", o.Self.Incarnation, class, o.Client)
	}
	if o.Lanes < 1 || o.Lanes > MaxLanes {
		return fmt.Errorf("%d lanes: want 1 to %d", o.Lanes, MaxLanes)
	}
	return nil
}

// A State is the state of a channel's connection.
type State struct {
	Connected bool
	// Server identifies the running broker instance behind the connection: it
	// changes when another one is reached and when the same one was restarted.
	Server string
	// Alone says that the instance is in no cluster of brokers, and is the only one
	// configured: members of the same configuration listen there or nowhere. False where
	// that is not known.
	Alone bool
}

// A Peer is an address and whether it is a client's: a client listens on other subjects
// than a member.
type Peer struct {
	Address
	Client bool
}

// A Link is one process's connections to the broker. All methods are safe for concurrent
// use, except that only one goroutine at a time may receive from a given channel
// (different goroutines may take turns).
type Link interface {
	// Send hands payload to the broker for one peer on one channel. nil means buffered,
	// not delivered. Payload is not kept. If the broker knows no listener, a Message of
	// kind Unreachable with the same token comes back on the channel. Messages of one
	// channel to one peer keep their order as long as neither side's connection breaks.
	Send(ch Channel, to Peer, token uint64, payload []byte) error
	// Broadcast sends on Control to every member of the cluster, including the sender.
	// Clients cannot; operators can.
	Broadcast(payload []byte) error
	// Anycast sends on Control to one serving member, chosen by the broker. If none
	// serves, Unreachable with a zero From comes back.
	Anycast(token uint64, payload []byte) error
	// Serve sets whether this member receives Anycast messages. A new link does not. When
	// Serve(true) returns nil the broker has the subscription, or will have it with the
	// next connection. While no member of a cluster serves, Anycast is answered by
	// Unreachable. Clients cannot serve. Messages that the broker had routed here before
	// Serve(false) are still received. Serve may be called without a connection, and
	// again with the same value; calls take turns, and the last one counts. After an
	// error of ctx the broker may not know of the change yet: call Serve again. After any
	// other error the link does not serve.
	Serve(ctx context.Context, on bool) error
	// Receive waits for the channel's next message. It returns ErrClosed after Close, and
	// after Drain once all messages that had arrived were received.
	Receive(ch Channel) (Message, error)
	// TryReceive is Receive without waiting: ok is false when nothing is there.
	TryReceive(ch Channel) (m Message, ok bool)
	// State returns the state of the channel's connection.
	State(ch Channel) State
	// MaxPayload is the largest payload that Send accepts now, in bytes. It changes when
	// the broker's limit does, or when another broker is reached.
	MaxPayload() int
	// Drain ends the lanes' subscriptions; Control goes on. When it returns nil, all
	// messages that the broker had routed to this link are ready to be received.
	Drain(ctx context.Context) error
	// Flush waits until the broker has received everything that was sent on the channel.
	Flush(ctx context.Context, ch Channel) error
	// Close flushes sent messages, closes all connections and wakes receivers.
	// It may be called twice.
	Close() error
}

// A Kind is the kind of a Message.
type Kind uint8

// The kinds of messages.
const (
	Direct      Kind = iota // sent to this address by Send
	Broadcast               // sent to all members
	Anycast                 // sent to any one member that serves
	Unreachable             // the broker's answer to a Send or Anycast without a listener
)

// A Message is a received message. Payload belongs to the receiver; it is
// never reused by the link.
type Message struct {
	Kind Kind
	// An Unreachable with an empty Payload proves that nobody listens. An Unreachable with a Payload
	// proves nothing: this process's user lacks a right, which the Payload names in a text. Its From is
	// the process whose subject the broker refused, or zero if the channel gets no connection.
	Payload []byte
	// From is the sender, as the subject names it that the broker's permissions guard: never
	// what the payload claims. It is zero for a message of a member: its subject proves only
	// membership. An Unreachable has the address that the send named (zero for Anycast).
	From Address
	// Token and Server are set for Unreachable: the token of the send, and the broker
	// instance that answered (empty if the link has since gone through too many to tell).
	Token  uint64
	Server string
}

// A Confidential is a [Link] that knows whether others can read its messages on their way. The
// links of the adapters in this module implement it.
type Confidential interface {
	// Confidential returns nil if the connection of Control to the broker is encrypted, or
	// does not leave this host, and otherwise an error that names the connection.
	Confidential() error
}

// Counts are the messages that a channel had to drop since it was opened, by reason.
type Counts struct {
	// Dropped counts messages that arrived when the queue before Receive was full. It may
	// be too low for a connection that broke meanwhile.
	Dropped uint64
	// Foreign counts messages on the link's subjects that no link has sent.
	Foreign uint64
	// Denied counts messages that the broker refused for lack of permission after Send
	// had returned.
	Denied uint64
}

// A Counter is a [Link] that counts dropped messages; the links of the adapters in this
// module are Counters.
type Counter interface {
	Counts(ch Channel) Counts
}
