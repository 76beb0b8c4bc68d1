package control

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// An Env is the process that a Member is part of. Its methods are called on the control loop
// and must not block.
type Env interface {
	Clock
	Log
	Shards
	Peers
	Process
	// Link returns the control channel's connection to the broker.
	Link() Link
}

// A Clock is the time, and the queue of the control loop.
type Clock interface {
	Now() time.Time
	// Post has f called on the control loop, soon and not from here.
	Post(f func())
	// After is Post after d.
	After(d time.Duration, f func())
}

// A Link is the connection to the broker as control uses it; a transport.Link is one.
type Link interface {
	Send(ch transport.Channel, to transport.Peer, seq uint64, payload []byte) error
	Broadcast(payload []byte) error
	Anycast(token uint64, payload []byte) error
	State(ch transport.Channel) transport.State
	MaxPayload() int
}

// A Level is the severity of a line of the log.
type Level = slog.Level

// The levels.
const (
	Debug = slog.LevelDebug
	Info  = slog.LevelInfo
	Warn  = slog.LevelWarn
	Error = slog.LevelError
)

// A Log takes the events that operators should see, and the counters.
type Log interface {
	Log(l Level, text string, args ...any)
	// LogSeldom is Log, but drops most of the lines that are alike in text and subject.
	LogSeldom(l Level, text, subject string, args ...any)
	// Count raises a counter by one, and returns its value and whether the log shall
	// have a line of it.
	Count(c Counter) (n uint64, tell bool)
	// CountOf is Count for an event caused by a process of that name, so that a flood of one name
	// does not hide lines about others; "" means an unknown name.
	CountOf(c Counter, name string) (n uint64, tell bool)
	// CountRefused counts a message of the membership that was refused.
	CountRefused(why membership.Refusal)
}

// A Counter is one of the counters of a process, which [Log.Count] raises by one.
type Counter uint8

// The counters.
const (
	Foreign   Counter = iota // bytes that are no message of this cluster
	Newer                    // a message that only a later release can read
	Ignored                  // a message that nobody here waits for
	Forbidden                // a message that its sender's class may not send
	OverQuota                // a message or a process of a client above the bounds of its name
)

// Shards are the shards of the process, and its routes to those of others.
type Shards interface {
	// Shard returns a shard of a type that is hosted here; nil for others.
	Shard(id placement.ShardID) Shard
	// Inventory returns the types and shards that the process registers with a coordinator.
	Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard)
	// InspectShards returns the shards of a type, or of all types if kind is "".
	InspectShards(kind string) []coordinator.InspectedShard
	// HoldsShards reports whether any shard is here or on its way here or away, whether calls wait
	// here, or whether a sender's Flush is still to come.
	HoldsShards() bool
	// Remembered returns the hosted types whose entities are remembered, in order.
	Remembered() []string
	// Waiting returns how many calls of a type wait for a home, and WaitingTypes the types of
	// such calls.
	Waiting(kind string) int
	WaitingTypes() []string
	// SetTable takes a newer table.
	SetTable(t *placement.Table)
	// SetExiting sets whether the process takes no shard any more, because it has nothing left to give
	// away.
	SetExiting(on bool)
}

// A Shard is one shard of a hosted type; a *shardhost.Shard is one.
type Shard interface {
	Obey(m coordinator.Message, term placement.Term) coordinator.Message
	CancelMove(epoch placement.Epoch) bool
	Held() (o coordinator.HeldShard, ok bool)
}

// Peers are the process's dealings with others.
type Peers interface {
	// PeerGone ends the dealings with a process that was downed. PeerLeft does so with one that
	// left in order, or a home outside the cluster, after the time for closing its lanes.
	PeerGone(a transport.Address)
	PeerLeft(a transport.Address)
	// Homes returns the processes that routes lead to, but for those of PeerGone and
	// PeerLeft.
	Homes() []transport.Address
}

// A Process is the rest of the process, as the control plane uses it.
type Process interface {
	// RenewLease sets the time until which turns may run; zero for no bound. LeaseValid
	// reports whether they may at this moment.
	RenewLease(until time.Time)
	LeaseValid() bool
	// TakeLease asks the store for the lease that decides a split. The answer goes to
	// Member.LeaseAnswer.
	TakeLease(r membership.LeaseRequest)
	// TakeTerm calls take with the term of a coordinator that starts here: above those of all
	// before it, and at least the given one. Before is the highest that the store had. Without
	// a store the term is the given one, before is 0, and take is called at once; else on the
	// control loop, once the store has answered.
	TakeTerm(atLeast uint32, take func(term, before uint32))
	// LastTerm calls take with the highest term that the store has; 0 means it does not answer. It
	// does nothing without a store.
	LastTerm(take func(term uint32))
	// Founding reads or writes the store's record of who founded the cluster, and calls answer
	// on the control loop.
	Founding(r membership.FoundingRequest, answer func(membership.FoundingAnswer))
	// Serve tells the broker whether processes without a table may be sent here. Then, if it is
	// not nil, is called on the control loop when the broker knows.
	Serve(on bool, then func())

	// Publish tells the user of changes of the cluster.
	Publish(v *membership.View, events []membership.Event)
	// Remember takes a message about remembered entities; RememberView takes the members.
	Remember(from transport.Address, body []byte) error
	RememberView(v *membership.View)
	// Direct takes a message about direct lanes.
	Direct(from transport.Peer, body []byte) error

	// Up is called when the process is admitted, Leaving when it begins to leave, and Left when it
	// has left in order.
	Up()
	Leaving()
	Left()
	// Fail ends the process. Downed does so because the others downed it.
	Fail(err error)
	Downed(reason string)

	// LeaveByOrder has the process leave, by an operator's command.
	LeaveByOrder()
	// Operate carries out an operator's request that is of the process (Command.OfProcess). It
	// calls answer on the control loop, later.
	Operate(r *operator.Request, answer func(operator.Answer))
}

// A Machine is the membership of a process; a *membership.Machine is one.
type Machine interface {
	Step(now time.Time, in membership.Input) membership.Output
	View() *membership.View
}

// A Config is how a Member works.
type Config struct {
	Cluster string
	Self    transport.Peer
	Lanes   int
	// Seeds, SeedTimeout, JoinTimeout and JoinByCommand are those of shard.Config.
	Seeds                    []string
	SeedTimeout, JoinTimeout time.Duration
	JoinByCommand            bool
	QuarantineAfter          time.Duration
}

// A Setup has the parts of a Member. It is known when all types were declared.
type Setup struct {
	// Members returns the membership's machine for a process that joins through seeds.
	Members func(seeds []string) (Machine, error)
	// Coordinator's Self and Term are set when the coordinator starts.
	Coordinator coordinator.Config
	// Coordinated is told of the events of the coordinator while it is here; nil means nobody is.
	Coordinated func(coordinator.Event)
	// Hosts reports whether the process hosts a type.
	Hosts bool
	// Singletons returns the singletons of the process.
	Singletons func(p singlehost.Process) (*singlehost.Set, error)
	// Callable returns the singleton of that type as the process calls it; nil if it cannot
	// call one.
	Callable func(kind string) singlehost.Callable
}

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
	// AwaitsBounce reports whether the broker may be about to report that a call certainly did not
	// reach its target.
	AwaitsBounce() bool
	// Callable returns the singleton of that name as the process calls it; nil if it is none.
	Callable(kind string) singlehost.Callable

	// Peers returns the processes that this one has dealt with, in order.
	Peers() []transport.Address
	// PeerGone ends the dealings with a process that is no member any more. PeerAbsent is called
	// when it is missing in the list of members, PeerBack when it is there again.
	PeerGone(a transport.Address)
	PeerAbsent(a transport.Address)
	PeerBack(a transport.Address)

	// Direct takes a message of a member about direct lanes.
	Direct(from transport.Peer, body []byte) error

	// Heard records a message of the serving member.
	Heard(at time.Time)
	// Served takes the hosted types of the cluster, with the numbers of their shards, from the
	// serving member. Refused takes the reason why a member does not.
	Served(kinds map[string]uint32)
	Refused(why error)
	// TurnedAway fails the calls sent to a member without a session for the process.
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
