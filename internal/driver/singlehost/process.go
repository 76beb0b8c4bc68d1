package singlehost

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A Process is the member that a Set belongs to. Its methods are called on the control loop, except
// Post, which any goroutine may call.
type Process interface {
	Finder
	// LogSeldom is like Log, but drops most repetitions of lines with the same text and subject.
	LogSeldom(l slog.Level, text, subject string, args ...any)
	// Post makes the control loop call f.
	Post(f func())
	// View returns the members; nil before there is a view.
	View() *membership.View
	// Broadcast sends a message to all members.
	Broadcast(m singleton.Message)
	// Clients returns the processes outside the cluster that this member serves.
	Clients() []transport.Peer
	// GaveAway is called when a singleton has left this member.
	GaveAway()
	// Ignored counts a message for which nothing here waits.
	Ignored()
}

// A Finder is a process that calls singletons.
type Finder interface {
	Now() time.Time
	Log(l slog.Level, text string, args ...any)
	Send(to transport.Peer, m singleton.Message)
	// Callable returns the singleton of that type, to which this process sends its calls. It
	// returns nil if this process cannot call it.
	Callable(kind string) Callable
	// SetWhy records why no instance of the singleton is known; "" means that an instance is known,
	// or there is no reason.
	SetWhy(kind, reason string)
}

// A Callable is a singleton that a process calls.
type Callable interface {
	// Found makes calls go to the node where the instance runs. hosts means that the instance, or a
	// part of its state, is at this process. Then the shard here knows better where the instance
	// is.
	Found(node transport.Address, epoch placement.Epoch, hosts bool)
}
