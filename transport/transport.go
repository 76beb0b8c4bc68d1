package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/wire/identity"
)

// Errors of a [Link]. Adapters wrap them; test with errors.Is.
var (
	// ErrDisconnected: the channel has no connection to a broker now, and the payload was not sent.
	// Send it again when State.Connected is true.
	ErrDisconnected = errors.New("not connected to the broker")
	// ErrTooLarge: the payload is larger than Link.MaxPayload; nothing was sent.
	ErrTooLarge = errors.New("payload exceeds the broker's limit")
	// ErrClosed: the link was closed; or it was drained, and all its messages were received.
	ErrClosed = errors.New("link closed")
)

// A Channel is an ordered stream of messages with a connection of its own. Lanes carry data and are
// numbered from 0. Control carries the messages that must not wait behind data.
type Channel int

// Control is the channel for control messages, which must not wait behind data.
const Control Channel = -1

// MaxLanes bounds the number of lanes of a link. Each lane is a connection.
const MaxLanes = 64

// A Transport opens links to a broker. It is safe for concurrent use.
type Transport interface {
	// Open connects every channel of one process, subscribes, and returns when the broker has
	// confirmed the subscriptions. The subscription for Anycast is made later, by Link.Serve. If
	// ctx ends first, Open fails and names the address that could not be reached.
	Open(ctx context.Context, o Options) (Link, error)
}

// Options configure a link.
type Options struct {
	Cluster string  // 1 to 64 of [A-Za-z0-9_-]
	Self    Address // the name obeys the same rule
	// Client is set for processes that are not members: clients of the cluster, and operators. The
	// two highest bits of Self's incarnation give the role: 0 for members, 1 for clients, 2 for
	// read-only operators, 3 for commanding operators.
	Client bool
	Lanes  int // number of lanes, 1 to MaxLanes
	// OnState is called with each change of a channel's connection, and with its first state before
	// Open returns. Calls for one channel come one after another, and none comes after Close. After
	// a connection has broken, Send on its channel fails until OnState has returned. So OnState can
	// arrange that lost messages are sent again before new ones. OnState must not block, nor call
	// Close.
	OnState func(Channel, State)
	Logger  *slog.Logger // nil discards
}

// Validate returns an error if o cannot open a link. Adapters call it first.
func (o Options) Validate() error {
	if err := CheckName("cluster", o.Cluster); err != nil {
		return err
	}
	if err := CheckName("node", o.Self.Name); err != nil {
		return err
	}
	if class := identity.Of(o.Self.Incarnation); o.Client != (class != identity.Member) {
		return fmt.Errorf("incarnation %016x is that of a %v, but Options.Client is %v", o.Self.Incarnation, class, o.Client)
	}
	if o.Lanes < 1 || o.Lanes > MaxLanes {
		return fmt.Errorf("%d lanes: want 1 to %d", o.Lanes, MaxLanes)
	}
	return nil
}

// A State is the state of a channel's connection.
type State struct {
	Connected bool
	// Server identifies the running broker instance behind the connection. Server changes when the
	// link connects to another instance, and when the instance has restarted.
	Server string
	// Alone is true if the instance certainly belongs to no cluster of brokers, and is the only one
	// configured. So members with the same configuration listen at this instance or nowhere.
	Alone bool
	// Name identifies the server over restarts: all instances of a server have the same Name, and
	// no other server has it. It is empty if unknown.
	Name string
}

// A Peer is the address of a process, and whether the process is a client. Senders need both,
// because a client listens on other subjects than a member.
type Peer struct {
	Address
	Client bool
}

// A Link is one process's connections to the broker. All methods are safe for concurrent use, but
// only one goroutine at a time may receive from a channel; goroutines may take turns.
type Link interface {
	// Send passes payload to the broker, for one peer on one channel. A nil error means that
	// payload was buffered, not necessarily delivered. Send does not keep payload. If the broker
	// knows no listener, a Message of kind Unreachable with the same token comes back on the
	// channel. Messages on one channel to one peer keep their order as long as neither side's
	// connection breaks.
	Send(ch Channel, to Peer, token uint64, payload []byte) error
	// Broadcast sends on Control to every member of the cluster, including the sender. Clients must
	// not call it; operators may.
	Broadcast(payload []byte) error
	// Anycast sends on Control to one of the members that serve (see Serve), which the broker
	// chooses. If no member serves, an Unreachable with a zero From comes back.
	Anycast(token uint64, payload []byte) error
	// Serve sets whether this member receives Anycast messages. A new link receives none. When
	// Serve(true) returns nil, the broker has the subscription, or will get it with the next
	// connection. Messages that the broker routed here before Serve(false) are still received.
	// Clients cannot serve.
	//
	// Serve may be called without a connection, and again with the same value. Calls run one after
	// another, and the last one counts. If Serve fails because ctx ended, the broker may not know
	// of the change: call Serve again. After any other error the link does not serve.
	Serve(ctx context.Context, on bool) error
	// Receive waits for the channel's next message. It returns ErrClosed after Close, or after
	// Drain when all messages that had arrived were received.
	Receive(ch Channel) (Message, error)
	// TryReceive is like Receive, but does not wait: ok is false if there is no message.
	TryReceive(ch Channel) (m Message, ok bool)
	// State returns the state of the channel's connection.
	State(ch Channel) State
	// MaxPayload returns the size in bytes of the largest payload that Send accepts now. It changes
	// when the broker's limit changes, or when the link connects to another broker.
	MaxPayload() int
	// Drain ends the subscriptions of the lanes, but not of Control. When it returns nil, all
	// messages that the broker had routed to this link can be received.
	Drain(ctx context.Context) error
	// Flush waits until the broker has received all messages sent on the channel.
	Flush(ctx context.Context, ch Channel) error
	// Close flushes sent messages, closes all connections and wakes receivers.
	// It may be called twice.
	Close() error
}

// A Kind is the kind of a Message.
type Kind uint8

// The kinds of messages. They say how a message was addressed, or that it is a report of the
// broker.
const (
	Direct      Kind = iota // sent to this address by Send
	Broadcast               // sent to all members
	Anycast                 // sent to any one member that serves
	Unreachable             // the broker's answer to a Send or Anycast without a listener
)

// A Message is a received message. Payload belongs to the receiver; the link does not use its
// memory again.
type Message struct {
	Kind Kind
	// Payload is what the sender sent. In an Unreachable, an empty Payload proves that nobody
	// listens. Any other Payload of an Unreachable is a text: it names a right that this process's
	// user lacks, and proves nothing about listeners. From is then the process whose subject the
	// broker refused, or zero if the channel gets no connection.
	Payload []byte
	// From is the sender named by the message's subject, which the broker's permissions protect;
	// what the payload claims is not used. From is zero for a message of a member, because the
	// subject proves only that some member sent the message. In an Unreachable, From is the address
	// to which the message was sent, or zero for Anycast.
	From Address
	// Token and Server are set in an Unreachable: the token of the Send, and the broker instance
	// that answered. Server is empty if the link no longer knows it, after too many later
	// connections.
	Token  uint64
	Server string
}

// A Confidential is a [Link] that can report whether others can read its messages in transit. The
// links of this module's adapters implement it.
type Confidential interface {
	// Confidential returns nil if the connection of Control to the broker is encrypted or does not
	// leave this host. Otherwise it returns an error that names the connection.
	Confidential() error
}

// An Expiry is the end of a certificate or of credentials.
type Expiry struct {
	What        string    // for people, such as "the broker's certificate"
	From, Until time.Time // From is zero if it is not known
	// Seen reports whether the end was seen when the present connection was made: the certificate
	// may have been renewed since. If Seen is false, the end was read just now.
	Seen bool
}

// An Expiring is a [Link] whose connection needs certificates or credentials.
type Expiring interface {
	// Expiries returns the certificates and credentials of the present connection of Control that
	// have an end. It may read files.
	Expiries() []Expiry
}

// A Mover is a [Link] that can connect Control to another server.
type Mover interface {
	// Move ends the connection of Control and connects to another server of the broker. If no other
	// server is known or can be reached, it connects to the same one. It does not wait.
	Move()
}

// A Scout is a [Link] that can ask other servers of the broker than that of Control.
type Scout interface {
	// Ask sends payload to a member's Control through a separate connection to a server instance
	// for which the function at returns true. listens is false if that instance knew no listener.
	// Ask fails if no such instance can be reached, or ctx ends.
	Ask(ctx context.Context, at func(server string) bool, to Address, payload []byte) (listens bool, err error)
}

// Counts has the numbers of messages that a channel has dropped since it was opened, by reason.
type Counts struct {
	// Dropped counts messages that arrived when the queue before Receive was full. After a broken
	// connection it may be too low.
	Dropped uint64
	// Foreign counts messages on the link's subjects that were not sent by a link.
	Foreign uint64
	// Denied counts messages that the broker refused for lack of permission after Send
	// had returned.
	Denied uint64
}

// A Counter is a [Link] that counts dropped messages. The links of this module's adapters implement
// it.
type Counter interface {
	Counts(ch Channel) Counts
}
