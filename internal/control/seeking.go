package control

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// seeking is a Client as package singlehost uses it.
type seeking struct{ c *Client }

var _ singlehost.Client = seeking{}

// Now is the time.
func (s seeking) Now() time.Time { return s.c.env.Now() }

// Log logs a line.
func (s seeking) Log(l slog.Level, text string, args ...any) { s.c.env.Log(l, text, args...) }

// Member returns the member that serves the process.
func (s seeking) Member() transport.Address { return s.c.gateway.Address }

// Send sends a message to a member.
func (s seeking) Send(to transport.Peer, m singleton.Message) {
	if body, err := singleton.Encode(m); err == nil {
		s.c.sendBody(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body)
	}
}

// Callable returns the singleton of that name as this process calls it.
func (s seeking) Callable(kind string) singlehost.Callable { return s.c.env.Callable(kind) }

// SetWhy notes the reason why no instance of the singleton is known.
func (s seeking) SetWhy(kind, reason string) { s.c.env.SetWhy(kind, reason) }
