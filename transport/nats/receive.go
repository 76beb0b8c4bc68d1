package natstransport

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/transport"
)

// statusHeader and noResponders are how a server says that nobody listens.
const (
	statusHeader = "Status"
	noResponders = "503"
)

// Receive waits for the channel's next message.
func (l *link) Receive(ch transport.Channel) (transport.Message, error) {
	c, err := l.channel(ch)
	if err != nil {
		return transport.Message{}, fmt.Errorf("receive: %w", err)
	}
	for {
		m, err := c.next()
		if err != nil {
			return transport.Message{}, err
		}
		if msg, ok := c.parse(m); ok {
			return msg, nil
		}
	}
}

// TryReceive returns the next message if there is one.
func (l *link) TryReceive(ch transport.Channel) (transport.Message, bool) {
	c, err := l.channel(ch)
	if err != nil || c.isClosed() {
		return transport.Message{}, false
	}
	for {
		select {
		case m := <-c.messages:
			if msg, ok := c.parse(m); ok {
				return msg, true
			}
		default:
			return transport.Message{}, false
		}
	}
}

func (c *channel) next() (*nats.Msg, error) {
	if c.isClosed() {
		return nil, transport.ErrClosed
	}
	select { // a queue that holds something is the common case, and one case is cheap
	case m := <-c.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.quit:
		return nil, transport.ErrClosed
	case <-c.dry:
	}
	select {
	case m := <-c.messages:
		return m, nil
	default:
		return nil, transport.ErrClosed
	}
}

// parse finds the kind of m by the letter that follows "sh.<cluster>.": the link's
// own subscriptions leave no more to tell apart.
func (c *channel) parse(m *nats.Msg) (transport.Message, bool) {
	if i := len(c.subjects.prefix); len(m.Subject) > i {
		switch m.Subject[i] {
		case 'n':
			return transport.Message{Kind: transport.Direct, Payload: m.Data}, true
		case 'r':
			if word, ok := strings.CutPrefix(m.Subject, c.subjects.replies); ok {
				if msg, ok := c.parseReply(word, m); ok {
					return msg, true
				}
			}
		case 'c':
			return transport.Message{Kind: transport.Broadcast, Payload: m.Data}, true
		case 'g':
			return transport.Message{Kind: transport.Anycast, Payload: m.Data}, true
		}
	}
	if n := c.foreign.Add(1); powerOfTwo(n) {
		c.log.Warn("foreign message ignored", "subject", bounded.Text(m.Subject), "bytes", len(m.Data), "count", n)
	}
	return transport.Message{}, false
}

func (c *channel) parseReply(word string, m *nats.Msg) (transport.Message, bool) {
	if word == wordFrame {
		return transport.Message{Kind: transport.Direct, Payload: m.Data}, c.client
	}
	// Anybody may publish to a reply subject; only the server sends a bare 503.
	if len(m.Data) != 0 || m.Header.Get(statusHeader) != noResponders {
		return transport.Message{}, false
	}
	msg := transport.Message{Kind: transport.Unreachable}
	kind, rest, _ := strings.Cut(word, ".")
	var ok bool
	switch kind {
	case wordUnreachable:
		msg.From, msg.Token, ok = parseUnreachable(rest)
	case wordAnycast:
		msg.Token, ok = parseToken(rest)
	}
	if ok {
		msg.Server = c.serverOf(m)
	}
	return msg, ok
}
