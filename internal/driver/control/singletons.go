package control

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

type singletons struct {
	Env
	m *Member
}

var _ singlehost.Process = singletons{}

// View returns the members; nil before there is a view.
func (s singletons) View() *membership.View { return s.m.View() }

func (s singletons) Send(to transport.Peer, msg singleton.Message) { s.m.sendSingleton(to, msg) }

func (s singletons) Broadcast(msg singleton.Message) { s.m.sendSingleton(transport.Peer{}, msg) }

// Clients returns the processes outside the cluster that this member serves.
func (s singletons) Clients() (clients []transport.Peer) {
	for _, a := range slices.SortedFunc(maps.Keys(s.m.gateway.clients), transport.Address.Compare) {
		clients = append(clients, s.m.gateway.clients[a].peer)
	}
	return clients
}

// Callable returns the object through which this process calls the singleton of type kind. It
// returns nil if this process cannot call that singleton.
func (s singletons) Callable(kind string) singlehost.Callable { return s.m.setup.Callable(kind) }

// SetWhy records why no instance of the singleton is known.
func (s singletons) SetWhy(kind, reason string) { s.m.reasons.Note(kind, reason, s.m.env.Now()) }

// GaveAway lets a leaving member exit if it has given everything away.
func (s singletons) GaveAway() { s.m.checkLeaving() }

// Ignored counts a message about singletons that nothing in this process waits for.
func (s singletons) Ignored() { s.m.env.Count(Ignored) }
