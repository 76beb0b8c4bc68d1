package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// singletonMember is a member as package singlehost uses it.
type singletonMember struct{ *control }

var _ singlehost.Process = singletonMember{}

// Now is the time.
func (m singletonMember) Now() time.Time { return time.Now() }

// Post has f called on the control loop.
func (m singletonMember) Post(f func()) { m.loop.Post(f) }

// View returns the members.
func (m singletonMember) View() *membership.View { return m.view.Load() }

// Send sends a message to a process.
func (m singletonMember) Send(to transport.Peer, msg singleton.Message) {
	body, err := singleton.Encode(msg)
	m.send(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body, err)
}

// Broadcast sends a message to all members.
func (m singletonMember) Broadcast(msg singleton.Message) { m.Send(transport.Peer{}, msg) }

// Clients returns the processes outside the cluster that this member serves.
func (m singletonMember) Clients() (clients []transport.Peer) {
	for _, c := range m.gateway.clients {
		clients = append(clients, c.peer)
	}
	return clients
}

// Callable returns the singleton of that name as this node calls it.
func (m singletonMember) Callable(kind string) singlehost.Callable { return m.plane.singleton(kind) }

// SetWhy notes the reason why no instance of the singleton is known.
func (m singletonMember) SetWhy(kind, reason string) { m.setWhy(kind, reason) }

// GaveAway lets a leaving node exit that has given everything away.
func (m singletonMember) GaveAway() { m.checkExit() }

// Ignored counts a message that nobody here waits for.
func (m singletonMember) Ignored() { m.plane.counters.add(frameIgnored) }

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
