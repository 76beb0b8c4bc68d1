package control

import (
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A ClientEnv is the process that a Client is part of. Its methods are called on the control
// loop and must not block.
type ClientEnv interface {
	Now() time.Time
	// Link returns the control channel's connection to the broker.
	Link() Link
	// Log logs a line, and Count raises a counter by one.
	Log(l Level, text string, args ...any)
	Count(c Counter) (n uint64, tell bool)

	// Waiting returns how many calls of a type wait for a home.
	Waiting(kind string) int
	// SetTable takes a newer table.
	SetTable(t *placement.Table)
	// BeginAnew forgets where shards are, and ends the dealings with all processes that are
	// not members of the new life of the cluster.
	BeginAnew(members map[transport.Address]bool)
	// AwaitsBounce reports whether the broker may be about to report that a call certainly did
	// not reach the process that it was sent to.
	AwaitsBounce() bool
	// Callable returns the singleton of that name as the process calls it; nil if it is none.
	Callable(kind string) singlehost.Callable

	// Peers returns the processes that this one has dealt with, in order.
	Peers() []transport.Address
	// PeerGone ends the dealings with a process that is no member any more. PeerAbsent notes
	// that it is not in the list of members, PeerBack that it is again.
	PeerGone(a transport.Address)
	PeerAbsent(a transport.Address)
	PeerBack(a transport.Address)

	// Direct takes a message of a member about direct lanes.
	Direct(from transport.Peer, body []byte) error

	// Heard notes that the member that serves the process spoke.
	Heard(at time.Time)
	// Served takes the types that are hosted in the cluster, with the numbers of their shards,
	// from the member that serves the process. Refused takes the reason why a member does not.
	Served(kinds map[string]uint32)
	Refused(why error)
	// TurnedAway fails the calls that were sent to a member that keeps no session with the
	// process.
	TurnedAway(by transport.Address, why error)
	// SetWhy takes the reason why a type has no home, as it was last said.
	SetWhy(kind, reason string)
}

// A ClientConfig is how a Client works.
type ClientConfig struct {
	Cluster string
	Self    transport.Peer
	Lanes   int
	// Seekers returns the search for singletons.
	Seekers func(p singlehost.Client) *singlehost.Seekers
}
