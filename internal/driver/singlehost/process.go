package singlehost

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A Process is the member that a Set is part of. Its methods are called on the control loop,
// but for Post, which any goroutine may call.
type Process interface {
	Finder
	// LogSeldom is Log, but drops most of the lines that are alike in text and subject.
	LogSeldom(l slog.Level, text, subject string, args ...any)
	// Post has f called on the control loop.
	Post(f func())
	// View returns the members; nil before there is a view.
	View() *membership.View
	// Broadcast sends a message to all members.
	Broadcast(m singleton.Message)
	// Clients returns the processes outside the cluster that this member serves.
	Clients() []transport.Peer
	// GaveAway notes that a singleton has left this member.
	GaveAway()
	// Ignored counts a message that nobody here waits for.
	Ignored()
}

// A Finder is a process that calls singletons.
type Finder interface {
	Now() time.Time
	Log(l slog.Level, text string, args ...any)
	Send(to transport.Peer, m singleton.Message)
	// Callable returns the singleton of that type as this process calls it; nil if it cannot
	// call one.
	Callable(kind string) Callable
	// SetWhy notes the reason why no instance of the singleton is known; "" for none.
	SetWhy(kind, reason string)
}

// A Callable is a singleton as a process calls it.
type Callable interface {
	// Found brings the calls to where the instance runs. hosts reports whether this process has
	// something of the instance itself, and so knows better where its shard is.
	Found(node transport.Address, epoch placement.Epoch, hosts bool)
}
