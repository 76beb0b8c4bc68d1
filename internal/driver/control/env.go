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

// An Env is the process that a Member belongs to. Its methods are called on the control loop and
// must not block.
type Env interface {
	Clock
	Log
	Shards
	Peers
	Process
	// Link returns the connection to the broker for the control channel.
	Link() Link
}

// A Clock has the time, and queues functions for the control loop.
type Clock interface {
	Now() time.Time
	// Post makes the control loop call f soon, but not before Post returns.
	Post(f func())
	// After is Post, delayed by d.
	After(d time.Duration, f func())
}

// A Link is the connection to the broker as package control needs it; transport.Link implements it.
type Link interface {
	Send(ch transport.Channel, to transport.Peer, seq uint64, payload []byte) error
	Broadcast(payload []byte) error
	Anycast(token uint64, payload []byte) error
	State(ch transport.Channel) transport.State
	MaxPayload() int
}

// A Level is the severity of a log line.
type Level = slog.Level

// The levels of log lines. They are those of package slog.
const (
	Debug = slog.LevelDebug
	Info  = slog.LevelInfo
	Warn  = slog.LevelWarn
	Error = slog.LevelError
)

// A Log writes log lines for operators, and counts events.
type Log interface {
	Log(l Level, text string, args ...any)
	// LogSeldom is like Log, but drops most repetitions of lines with the same text and subject.
	LogSeldom(l Level, text, subject string, args ...any)
	// Count adds one to a counter. It returns the new value, and whether to log it.
	Count(c Counter) (n uint64, tell bool)
	// CountOf is like Count for an event caused by a process with the given name. Names are counted
	// apart, so one name's flood does not hide lines about other names. "" means that the name is
	// unknown.
	CountOf(c Counter, name string) (n uint64, tell bool)
	// CountRefused counts a refused membership message.
	CountRefused(why membership.Refusal)
}

// A Counter is one of the counters of a process. [Log.Count] adds one to it.
type Counter uint8

// The events that package control counts.
const (
	Foreign   Counter = iota // bytes that are not a message of this cluster
	Newer                    // messages that only a later release can read
	Ignored                  // messages that nothing here waits for
	Forbidden                // messages that a process of the sender's class may not send
	OverQuota                // messages and processes of clients above the bounds of their name
)

// Shards are the shards of the process, and its routes to shards elsewhere.
type Shards interface {
	// Shard returns a shard of a type that this process hosts; nil for other types.
	Shard(id placement.ShardID) Shard
	// Inventory returns the types and shards that this process registers with a coordinator.
	Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard)
	// InspectShards returns the shards of a type, or of all types if kind is "".
	InspectShards(kind string) []coordinator.InspectedShard
	// HoldsShards reports whether a leaving process must still wait. It waits for
	// shards here or on their way, for waiting calls, for a Flush, and for tells to another home.
	HoldsShards() bool
	// Unasked returns, in order, the hosted types whose shards need homes even without calls. later
	// means that wakeAfter has passed since the admission: then the durable types, except
	// singletons, are included.
	Unasked(later bool) []string
	// Waiting returns how many calls of a type wait for a home. WaitingTypes returns the types that
	// have such calls.
	Waiting(kind string) int
	WaitingTypes() []string
	// SetTable replaces the shard table with a newer one.
	SetTable(t *placement.Table)
	// SetExiting sets whether the process takes no more shards, because it has given all of its
	// shards away.
	SetExiting(on bool)
}

// A Shard is one shard of a hosted type; *shardhost.Shard implements it.
type Shard interface {
	Obey(m coordinator.Message, term placement.Term) coordinator.Message
	CancelMove(epoch placement.Epoch) bool
	Held() (o coordinator.HeldShard, ok bool)
}

// Peers are the sessions of this process with other processes.
type Peers interface {
	// PeerGone closes the sessions with a process that was downed. PeerLeft closes them after the
	// time allowed for goodbyes; it is for a member that left gracefully, or a home outside the
	// membership.
	PeerGone(a transport.Address)
	PeerLeft(a transport.Address)
	// Homes returns the processes that routes lead to, except processes passed to PeerGone or
	// PeerLeft.
	Homes() []transport.Address
}

// A Process has the functions of the process that the other interfaces of Env do not have.
type Process interface {
	// RenewLease sets the time until which turns may run; zero means no end. LeaseValid reports
	// whether they may run now.
	RenewLease(until time.Time)
	LeaseValid() bool
	// TakeLease requests the lease in the store that decides a split. Member.LeaseAnswer gets the
	// answer.
	TakeLease(r membership.LeaseRequest)
	// TakeTerm calls take with a term for a coordinator that starts here: above the terms of all
	// earlier coordinators, and at least atLeast. before is the highest term that the store had.
	// With a store, take is called on the control loop when the store has answered. Without a store,
	// take is called at once, the term is atLeast, and before is 0.
	TakeTerm(atLeast uint32, take func(term, before uint32))
	// LastTerm calls take with the highest term in the store; 0 means that the store does not
	// answer. Without a store it does nothing.
	LastTerm(take func(term uint32))
	// Founding reads or writes the store's record of the cluster's founder, as r requests. It calls
	// answer on the control loop.
	Founding(r membership.FoundingRequest, answer func(membership.FoundingAnswer))
	// AskServer asks another server of the broker whether q.Peer listens, by sending payload to
	// q.Peer through that server. It calls answer on the control loop if the server answers.
	AskServer(q membership.Question, payload []byte, answer func(membership.Asked))
	// ReadTable, WriteTable and WriteAlive send a request of the membership to the membership
	// table. They call answer on the control loop, even if the table does not answer in time.
	ReadTable(r membership.TableRead, answer func(membership.TableRows))
	WriteTable(r membership.TableWrite, answer func(membership.TableWritten))
	WriteAlive(r membership.TableAlive, answer func(membership.TableWritten))
	// Serve tells the broker whether to send clients' messages to this process. The callback
	// (then), if any, is called on the control loop when the broker knows.
	Serve(on bool, then func())

	// Publish passes changes of the cluster to the user.
	Publish(v *membership.View, events []membership.Event)
	// Remember handles a message about remembered entities. RememberView passes on the members for
	// the same purpose.
	Remember(from transport.Address, body []byte) error
	RememberView(v *membership.View)
	// Direct handles a message about direct lanes.
	Direct(from transport.Peer, body []byte) error

	// Up is called when the process is admitted, Leaving when it begins to leave, and Left when it
	// has left gracefully.
	Up()
	Leaving()
	Left()
	// Fail ends the process with an error. Downed ends it because other members have downed it.
	Fail(err error)
	Downed(reason string)

	// LeaveByOrder makes the process leave, because an operator ordered it.
	LeaveByOrder()
	// Operate carries out an operator's request that the control plane leaves to the process
	// (Command.OfProcess). It calls answer later, on the control loop.
	Operate(r *operator.Request, answer func(operator.Answer))
}

// A Machine is the membership of a process; *membership.Machine implements it.
type Machine interface {
	Step(now time.Time, in membership.Input) membership.Output
	View() *membership.View
}

// A Config configures a Member.
type Config struct {
	Cluster string
	Self    transport.Peer
	Lanes   int
	// Seeds, SeedTimeout, JoinTimeout and JoinByCommand are as in shard.Config.
	Seeds                    []string
	SeedTimeout, JoinTimeout time.Duration
	JoinByCommand            bool
	QuarantineAfter          time.Duration
	// Capacity and Zone are as in coordinator.Register.
	Capacity uint32
	Zone     string
}

// A Setup has the parts of a Member. They are known when all types are declared.
type Setup struct {
	// Members returns the machine of the membership, for a process that joins through seeds.
	Members func(seeds []string) (Machine, error)
	// Coordinator configures the coordinator. Self and Term are set when it starts.
	Coordinator coordinator.Config
	// Coordinated is called with each event of the coordinator while the coordinator runs here. It
	// may be nil.
	Coordinated func(coordinator.Event)
	// Hosts reports whether the process hosts a type.
	Hosts bool
	// Singletons returns the user's singletons of the process.
	Singletons func(p singlehost.Process) (*singlehost.Set, error)
	// Callable returns the singleton of that type, to which this process sends its calls. It
	// returns nil if this process cannot call it.
	Callable func(kind string) singlehost.Callable
}

// A ClientEnv is the process that a Client belongs to. Its methods are called on the control loop
// and must not block.
type ClientEnv interface {
	Now() time.Time
	// Link returns the connection to the broker for the control channel.
	Link() Link
	// Log logs a line. Count adds one to a counter.
	Log(l Level, text string, args ...any)
	Count(c Counter) (n uint64, tell bool)

	// Waiting returns how many calls of a type wait for a home.
	Waiting(kind string) int
	// SetTable replaces the shard table with a newer one.
	SetTable(t *placement.Table)
	// BeginAnew forgets where shards are, and closes the sessions with all processes that are not
	// members in the new life of the cluster.
	BeginAnew(members map[transport.Address]bool)
	// AwaitsBounce reports whether the broker may still report that a call certainly did not reach
	// its target.
	AwaitsBounce() bool
	// Callable returns the singleton of that type, to which this process sends its calls. It
	// returns nil if the type is not a singleton.
	Callable(kind string) singlehost.Callable

	// Peers returns the processes with which this one has had sessions, in order.
	Peers() []transport.Address
	// PeerGone closes the sessions with a process that is not a member any more. PeerAbsent is
	// called when a peer is missing in the list of members, and PeerBack when it is in the list
	// again.
	PeerGone(a transport.Address)
	PeerAbsent(a transport.Address)
	PeerBack(a transport.Address)

	// Direct handles a member's message about direct lanes.
	Direct(from transport.Peer, body []byte) error

	// Heard records when the gateway last sent something.
	Heard(at time.Time)
	// Served passes on the cluster's hosted types, with their numbers of shards, as the gateway
	// sent them. Refused passes on why a member does not serve this process.
	Served(kinds map[string]uint32)
	Refused(why error)
	// TurnedAway fails the calls sent to a member that keeps no session with this process.
	TurnedAway(by transport.Address, why error)
	// SetWhy records the latest reason why a type has no home.
	SetWhy(kind, reason string)
}

// A ClientConfig configures a Client.
type ClientConfig struct {
	Cluster string
	Self    transport.Peer
	Lanes   int
	// Seekers returns the process's search for singletons.
	Seekers func(p singlehost.Client) *singlehost.Seekers
}
