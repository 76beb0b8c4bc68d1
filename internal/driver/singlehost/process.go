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
	// LogSeldom is Log, but drops most repetitions of lines with the same text and subject.
	LogSeldom(l slog.Level, text, subject string, args ...any)
	// Post makes the control loop call f.
	Post(f func())
	// View returns the members; nil before there is a view.
	View() *membership.View
	// Broadcast sends a message to all members.
	Broadcast(m singleton.Message)
	// Clients returns the processes outside the cluster that this member serves.
	Clients() []transport.Peer
	// GaveAway records that a singleton has left this member.
	GaveAway()
	// Ignored counts a message that nothing here waits for.
	Ignored()
}

// A Finder is a process that calls singletons.
type Finder interface {
	Now() time.Time
	Log(l slog.Level, text string, args ...any)
	Send(to transport.Peer, m singleton.Message)
	// Callable returns the singleton of that type, for calls of this process; nil if it cannot be
	// called.
	Callable(kind string) Callable
	// SetWhy records why no instance of the singleton is known; "" means that one is known, or
	// there is no reason.
	SetWhy(kind, reason string)
}

// A Callable is a singleton that a process calls.
type Callable interface {
	// Found sends the calls to the node where the instance runs. hosts means that this process has a
	// part of the instance itself, and so knows better where the instance's shard is.
	Found(node transport.Address, epoch placement.Epoch, hosts bool)
}
