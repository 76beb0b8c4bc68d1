package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// singletonClient is a process outside the cluster as package singlehost uses it.
type singletonClient struct{ *Conn }

var _ singlehost.Outsider = singletonClient{}

// Now is the time.
func (c singletonClient) Now() time.Time { return time.Now() }

// Member returns the member that serves the process.
func (c singletonClient) Member() transport.Address { return c.gateway.Address }

// Send sends a message to a member.
func (c singletonClient) Send(to transport.Peer, m singleton.Message) {
	if body, err := singleton.Encode(m); err == nil {
		c.sendBody(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body)
	}
}

// Callable returns the singleton of that name as this process calls it.
func (c singletonClient) Callable(kind string) singlehost.Callable { return c.plane.singleton(kind) }

// SetWhy notes the reason why no instance of the singleton is known.
func (c singletonClient) SetWhy(kind, reason string) { c.setWhy(kind, reason) }
