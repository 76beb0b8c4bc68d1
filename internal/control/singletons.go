package control

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// singletons is a member as package singlehost uses it.
type singletons struct{ m *Member }

var _ singlehost.Process = singletons{}

// Now is the time.
func (s singletons) Now() time.Time { return s.m.env.Now() }

// Log logs a line.
func (s singletons) Log(l slog.Level, text string, args ...any) { s.m.env.Log(l, text, args...) }

// LogSeldom logs a line, and drops most repetitions of similar lines.
func (s singletons) LogSeldom(l slog.Level, text, subject string, args ...any) {
	s.m.env.LogSeldom(l, text, subject, args...)
}

// Post has f called on the control loop.
func (s singletons) Post(f func()) { s.m.env.Post(f) }

// View returns the members.
func (s singletons) View() *membership.View { return s.m.View() }

// Send sends a message to a process.
func (s singletons) Send(to transport.Peer, msg singleton.Message) { s.m.sendSingleton(to, msg) }

// Broadcast sends a message to all members.
func (s singletons) Broadcast(msg singleton.Message) { s.m.sendSingleton(transport.Peer{}, msg) }

// Clients returns the processes outside the cluster that this member serves.
func (s singletons) Clients() (clients []transport.Peer) {
	for _, a := range slices.SortedFunc(maps.Keys(s.m.gateway.clients), transport.Address.Compare) {
		clients = append(clients, s.m.gateway.clients[a].peer)
	}
	return clients
}

// Callable returns the singleton of that name as this process calls it.
func (s singletons) Callable(kind string) singlehost.Callable { return s.m.setup.Callable(kind) }

// SetWhy notes the reason why no instance of the singleton is known.
func (s singletons) SetWhy(kind, reason string) { s.m.reasons.Note(kind, reason, s.m.env.Now()) }

// GaveAway lets a leaving member exit that has given everything away.
func (s singletons) GaveAway() { s.m.leaving.check() }

// Ignored counts a message that nobody here waits for.
func (s singletons) Ignored() { s.m.env.Count(Ignored) }
