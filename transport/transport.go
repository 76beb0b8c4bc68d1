package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Errors of a [Link]. Adapters wrap them; test with errors.Is.
var (
	// ErrDisconnected: the channel has no connection to a broker right now and
	// the payload was not handed to one. Wait for State.Connected and send again.
	ErrDisconnected = errors.New("not connected to the broker")
	// ErrTooLarge: the payload exceeds Link.MaxPayload; nothing was sent.
	ErrTooLarge = errors.New("payload exceeds the broker's limit")
	// ErrClosed: the link was closed, or drained and read to its end.
	ErrClosed = errors.New("link closed")
)

// Channel is one independent order of messages on a connection of its own.
// Lanes are numbered from 0; Control carries everything that must not wait
// behind data.
type Channel int

// Control is the channel of the control plane.
const Control Channel = -1

// MaxLanes bounds the lanes of a link: each is a connection.
const MaxLanes = 64

// A Transport opens links to a broker. It is safe for concurrent use.
type Transport interface {
	// Open connects every channel of one process, subscribes, and returns once
	// the broker has confirmed the subscriptions; only those for Anycast wait for
	// Link.Serve. It fails when ctx ends first, with the address that could not be
	// reached.
	Open(ctx context.Context, o Options) (Link, error)
}

// Options say who opens a link and what it listens to.
type Options struct {
	Cluster string  // 1 to 64 of [A-Za-z0-9_-]
	Self    Address // the name obeys the same rule
	Client  bool    // not a member: no request, broadcast or gateway subjects
	Lanes   int     // number of lanes, 1 to MaxLanes
	// OnState is told each change of a channel's connection, also the first,
	// before Open returns; calls for one channel come one after another, and
	// none after Close. Once a connection broke, no Send succeeds on that channel
	// before OnState was told and has returned, so what was lost can be sent
	// first. It must not block, nor call Close.
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
	if o.Lanes < 1 || o.Lanes > MaxLanes {
		return fmt.Errorf("%d lanes: want 1 to %d", o.Lanes, MaxLanes)
	}
	return nil
}

// State is what a channel knows of its connection.
type State struct {
	Connected bool
	// Server identifies the running broker instance behind the connection: it
	// changes when another one is reached and when the same one was restarted.
	Server string
}

// A Peer is an address with the way to reach it: a client listens on other
// subjects than a member.
type Peer struct {
	Address
	Client bool
}

// A Link is one process's connections to the broker. All methods are safe for
// concurrent use, except that only one goroutine at a time may receive from a
// given channel (different goroutines may take turns).
type Link interface {
	// Send hands payload to the broker for one peer on one channel. nil means
	// buffered, not delivered. Payload is not kept. If the broker knows nobody
	// who listens, a Message of kind Unreachable with the same token comes back
	// on the channel. Messages of one channel to one peer keep their order for
	// as long as neither side's connection breaks.
	Send(ch Channel, to Peer, token uint64, payload []byte) error
	// Broadcast sends on Control to every member of the cluster, the sender
	// included.
	Broadcast(payload []byte) error
	// Anycast sends on Control to one member of the cluster that serves, which one
	// is the broker's choice. Without any Unreachable with a zero From comes back.
	Anycast(token uint64, payload []byte) error
	// Serve says whether this member takes Anycast messages. A fresh link does
	// not. When Serve(true) returns nil the broker has the subscription (or will
	// have it with the next connection); while no member of a cluster serves,
	// Anycast is answered by Unreachable. Clients cannot serve. What the broker
	// had routed here before Serve(false) is still received. Serve may be called
	// without a connection and again with the same wish; calls take turns, and
	// the last one counts. After an error of ctx the broker may not know yet:
	// call again. Any other error leaves the link not serving.
	Serve(ctx context.Context, on bool) error
	// Receive waits for the channel's next message. It returns ErrClosed after
	// Close, and after Drain once everything that had arrived was received.
	Receive(ch Channel) (Message, error)
	// TryReceive is Receive without waiting: ok is false when nothing is there.
	TryReceive(ch Channel) (m Message, ok bool)
	// State tells the channel's connection now.
	State(ch Channel) State
	// MaxPayload is the largest payload that Send takes now, in bytes. It changes when the
	// broker's limit does, or another broker is reached.
	MaxPayload() int
	// Drain ends the lanes' subscriptions; Control goes on. When it returns nil,
	// whatever the broker had routed to this link is ready to be received.
	Drain(ctx context.Context) error
	// Flush waits until the broker has taken what was sent on the channel.
	Flush(ctx context.Context, ch Channel) error
	// Close flushes what was sent, closes all connections and wakes receivers.
	// It may be called twice.
	Close() error
}

// Kind says what a Message is.
type Kind uint8

// The kinds of messages.
const (
	Direct      Kind = iota // sent to this address by Send
	Broadcast               // sent to all members
	Anycast                 // sent to any member that serves, and this one was chosen
	Unreachable             // the answer to a Send or Anycast that nobody listens to
)

// A Message is what Receive returns. Payload belongs to the receiver; it is
// never reused by the link.
type Message struct {
	Kind    Kind
	Payload []byte
	// From and Token are set for Unreachable: the address that the send named
	// (zero for Anycast), its token, and the broker instance that answered
	// (empty if the link has since gone through too many to tell).
	From   Address
	Token  uint64
	Server string
}
