package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// Config configures a node or a connection. Cluster and Transport must be set; the zero
// value of every other field is its default.
type Config struct {
	// Cluster is the name of the cluster: 1 to 64 of A-Z a-z 0-9 _ -.
	Cluster string
	// Transport connects to the other processes; see packages natstransport and memory.
	Transport transport.Transport
	// Name is the node's name, unique in the cluster, formed like Cluster. Default
	// "<hostname>-<pid>".
	Name string
	// Roles are labels of this node. A type with [HostRole] is hosted only by nodes with that role.
	// Default none.
	Roles []string
	// Zone is where the node runs, such as "eu-1b": 1 to 64 of A-Z a-z 0-9 _ -. The coordinator
	// spreads the instances of a pool over zones. Users' placement strategies get the zone in
	// placement.Load. Default none.
	Zone string
	// Capacity is the number of processors that the node may use. placement.LoadWeighted divides
	// the load by it. Default GOMAXPROCS, or less if the process's control group has a smaller
	// quota; 0.01 to 10,000.
	Capacity float64
	// Seeds are names of nodes to join; the node that is named first may found the cluster. Default
	// none: nodes find each other through the broker. If no member has had a seed's name within 10
	// times Membership.SeedTimeout, the name is logged once, because it may be misspelt.
	Seeds []string
	// Membership has the settings of joining, leaving, failure detection, gossip and downing.
	Membership membership.Options
	// Limits bounds the calls and bytes that wait at this process.
	Limits Limits
	// Lanes is the number of data connections, 1 to 64; it must be equal at all processes of a
	// cluster. One goroutine reads each connection, and all calls of a shard share one. Several
	// lanes help where a process has many cores and receives several 100,000 quick calls a second;
	// elsewhere they only make frames smaller. Default 1.
	Lanes int
	// CallTimeout bounds calls whose context has no deadline. Default 5s, minimum 1ms.
	CallTimeout time.Duration
	// HandoffTimeout bounds each of two steps of a shard's move: the old home ends the shard's
	// turns and runs the stop hooks; then the state goes to the new home. If a step takes longer,
	// the shard stays. Default 60s, minimum 1s.
	HandoffTimeout time.Duration
	// Store keeps everything needed after a full restart: the state of durable types, the ids of
	// remembered entities, the leases of singletons and of DowningLeaseMajority, and the
	// coordinator's term, which must keep growing. Durable types and leases need a store: natsstore
	// on JetStream, or package store/memory for tests. All members must have the same store, or
	// none. Default none.
	Store store.Backend
	// Rebalance sets when shards move so that members hold equal numbers of them.
	Rebalance RebalanceOptions
	// Direct lets data frames take TCP connections between processes instead of the broker.
	// Default: they do not.
	Direct DirectOptions
	// Gateway lets any client of the broker call the types that this node hosts, in JSON or
	// protobuf, by a request to sh.<cluster>.g.<caller>.<kind>.<method>.<id>. NATS permissions
	// control access: they grant a client the name that it sends as <caller>. In clusters without
	// permissions <caller> is "any". Default false.
	Gateway bool
	// Interceptors are called around the calls and tells that this process makes; the first one is
	// outermost. See [Interceptor]. With interceptors, local calls are encoded too, which costs
	// time. [Intercept] sets interceptors for turns at a node. Default none.
	Interceptors []Interceptor
	// Tracing records traced calls and turns of this process. Package shardotel implements it.
	// Default none.
	Tracing Tracing
	// Logger receives messages for operators. Default slog.Default().
	Logger *slog.Logger
}

// Limits bound the calls and bytes that wait at a process. The zero value of every field is its
// default. Processes may have different limits.
type Limits struct {
	// BufferSize bounds the calls that wait at this process because their shards have no
	// home. Default 100,000, minimum 1.
	BufferSize int
	// MailboxCalls bounds the calls that wait for one entity; [MaxMailboxCalls] sets it for a
	// type. Default 1,000, minimum 1.
	MailboxCalls int
	// MailboxBytes bounds the bytes of the calls that wait for one entity: their
	// arguments, ids and method names. [MaxMailboxBytes] sets it for a type. Default 8 MiB,
	// 64 KiB to 1 GiB.
	MailboxBytes int
	// ShardBytes bounds the bytes, counted as for MailboxBytes, of the calls that wait in one
	// shard: for turns of its entities, or while the shard moves to this process or away. Default
	// 32 MiB, at least MailboxBytes, at most 1 GiB.
	ShardBytes int
	// BufferBytes bounds the bytes, counted as for MailboxBytes, of the calls waiting at this
	// process: in all its shards, and for shards without a home. Calls of this process that wait on
	// their callers' goroutines are not encoded and do not count. Tells to entities of this process
	// whose turns have begun may take as much again; each tell counts as its arguments and 40
	// bytes. The calls of all clients ([Dial]) of one name together may take half of BufferBytes.
	// Default 128 MiB, at least ShardBytes, at most 1 TiB.
	BufferBytes int
	// Window is the number of bytes that one other process may have under way to this
	// process on one lane. Default 1 MiB, 64 KiB to 16 MiB.
	Window int
	// MaxBuffered is the number of bytes that this process keeps for another one on one lane until
	// they are acknowledged. Further calls to that process are refused with [ErrOverloaded].
	// Default 8 MiB, at least Window.
	MaxBuffered int
	// AnswerBytes bounds the bytes of answers kept for all clients ([Dial]) of one name until they
	// acknowledge them. MaxBuffered bounds those for one client on one lane. Beyond either bound,
	// further calls of these clients are refused with [ErrOverloaded] before they run. Beyond twice
	// the bound, the results of calls already running are dropped. A client that acknowledges
	// nothing for a minute loses its session. Default 4 times MaxBuffered, at least MaxBuffered, at
	// most 1 TiB.
	AnswerBytes int
	// SingletonBuffer bounds the calls that wait at this process for a singleton without
	// an instance. When it is full, the oldest call is dropped and fails with
	// [ErrBufferFull]. With 0, as new(0), every call that finds no instance fails.
	// Default (nil) 1,000; at most 10,000.
	SingletonBuffer *int
}

// RebalanceOptions set when the coordinator moves shards so that members hold equal numbers of a
// type's shards. The options of the member that runs the coordinator apply. The zero value of every
// field is its default.
type RebalanceOptions struct {
	// MaxMoves bounds the shards of a type that move at once for rebalancing. Default 3,
	// minimum 1. Shards of leaving nodes do not count.
	MaxMoves int
	// Threshold is the difference in shards of a type that two nodes may have
	// before shards are moved. Default 1, minimum 1.
	Threshold int
	// Interval is how long a shard stays where it is after its move for rebalancing was given up.
	// Default 10s, minimum 1s.
	Interval time.Duration
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName()
	}
	set(&c.Lanes, 1)
	set(&c.CallTimeout, 5*time.Second)
	set(&c.HandoffTimeout, 60*time.Second)
	set(&c.Limits.BufferSize, 100_000)
	set(&c.Limits.MailboxCalls, 1_000)
	set(&c.Limits.MailboxBytes, 8<<20)
	set(&c.Limits.ShardBytes, max(32<<20, c.Limits.MailboxBytes))
	set(&c.Limits.BufferBytes, max(128<<20, c.Limits.ShardBytes))
	set(&c.Limits.Window, 1<<20)
	set(&c.Limits.MaxBuffered, max(8<<20, c.Limits.Window))
	set(&c.Limits.AnswerBytes, 4*c.Limits.MaxBuffered)
	set(&c.Limits.SingletonBuffer, new(1_000))
	set(&c.Rebalance.MaxMoves, 3)
	set(&c.Rebalance.Threshold, 1)
	set(&c.Rebalance.Interval, 10*time.Second)
	c.Membership = c.Membership.WithDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// minBytes and maxBytes bound Limits.MailboxBytes. The bounds of the other byte limits derive from
// them.
const (
	minBytes = 64 << 10
	maxBytes = 1 << 30
)

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// defaultName is <hostname>-<pid>, with - for invalid characters.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	host = strings.Map(func(r rune) rune {
		if transport.CheckName("", string(r)) != nil {
			return '-'
		}
		return r
	}, host)
	return fmt.Sprintf("%.48s-%d", host, os.Getpid())
}

// validate returns all faults of c after withDefaults.
func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("config: "+format, args...))
		}
	}
	errs = append(errs, transport.CheckName("cluster", c.Cluster), transport.CheckName("node", c.Name))
	for _, s := range c.Seeds {
		errs = append(errs, transport.CheckName("seed", s))
	}
	for _, r := range c.Roles {
		errs = append(errs, transport.CheckName("role", r))
	}
	if c.Zone != "" {
		errs = append(errs, transport.CheckName("zone", c.Zone))
	}
	bad(c.Capacity == 0 || c.Capacity >= 0.01 && c.Capacity <= 10_000, "Capacity is %v: want 0.01 to 10000 processors, or 0 for those of the process", c.Capacity)
	bad(c.Transport != nil, "Transport is nil (set natstransport.New(url))")
	bad(c.Lanes >= 1 && c.Lanes <= 64, "Lanes is %d: want 1 to 64", c.Lanes)
	bad(c.CallTimeout >= time.Millisecond, "CallTimeout is %v: want at least 1ms", c.CallTimeout)
	bad(c.HandoffTimeout >= time.Second, "HandoffTimeout is %v: want at least 1s", c.HandoffTimeout)
	bad(c.Limits.BufferSize >= 1, "Limits.BufferSize is %d: want at least 1", c.Limits.BufferSize)
	bad(c.Limits.MailboxCalls >= 1, "Limits.MailboxCalls is %d: want at least 1", c.Limits.MailboxCalls)
	bad(c.Limits.MailboxBytes >= minBytes && c.Limits.MailboxBytes <= maxBytes, "Limits.MailboxBytes is %d: want 64 KiB to 1 GiB", c.Limits.MailboxBytes)
	bad(c.Limits.ShardBytes >= c.Limits.MailboxBytes && c.Limits.ShardBytes <= maxBytes, "Limits.ShardBytes is %d: want at least MailboxBytes (%d), at most 1 GiB", c.Limits.ShardBytes, c.Limits.MailboxBytes)
	bad(c.Limits.BufferBytes >= c.Limits.ShardBytes && int64(c.Limits.BufferBytes) <= maxBytes<<10, "Limits.BufferBytes is %d: want at least ShardBytes (%d), at most 1 TiB", c.Limits.BufferBytes, c.Limits.ShardBytes)
	bad(c.Limits.Window >= 64<<10 && c.Limits.Window <= 16<<20, "Limits.Window is %d: want 64 KiB to 16 MiB", c.Limits.Window)
	bad(c.Limits.MaxBuffered >= c.Limits.Window, "Limits.MaxBuffered is %d: want at least Window (%d)", c.Limits.MaxBuffered, c.Limits.Window)
	bad(c.Limits.AnswerBytes >= c.Limits.MaxBuffered && int64(c.Limits.AnswerBytes) <= maxBytes<<10, "Limits.AnswerBytes is %d: want at least MaxBuffered (%d), at most 1 TiB", c.Limits.AnswerBytes, c.Limits.MaxBuffered)
	bad(*c.Limits.SingletonBuffer >= 0 && *c.Limits.SingletonBuffer <= 10_000, "Limits.SingletonBuffer is %d: want 0 to 10000, or nil for the default", *c.Limits.SingletonBuffer)
	bad(c.Rebalance.MaxMoves >= 1, "Rebalance.MaxMoves is %d: want at least 1", c.Rebalance.MaxMoves)
	bad(c.Rebalance.Interval >= time.Second, "Rebalance.Interval is %v: want at least 1s", c.Rebalance.Interval)
	bad(c.Rebalance.Threshold >= 1, "Rebalance.Threshold is %d: want at least 1", c.Rebalance.Threshold)
	errs = append(errs, c.Membership.Validate(c.Store != nil))
	bad(!isNil(c.Transport), "Transport is a nil %T (check the error of the function that returned it)", c.Transport)
	bad(!isNil(c.Tracing), "Tracing is a nil %T (check the error of the function that returned it)", c.Tracing)
	bad(!isNil(c.Store), "Store is a nil %T (check the error of the function that returned it)", c.Store)
	bad(!isNil(c.Membership.Table.Store), "Membership.Table.Store is a nil %T (check the error of the function that returned it)", c.Membership.Table.Store)
	bad(c.Membership.Table.Store == nil || len(c.Seeds) == 0, "Seeds are set, and Membership.Table.Store too: the table knows the members (leave Seeds unset)")
	return errors.Join(errs...)
}

// isNil reports whether an interface holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// engine returns the part of c, after withDefaults, that package node needs.
func (c Config) engine() node.Config {
	e := node.Config{
		Cluster: c.Cluster, Name: c.Name, Lanes: c.Lanes, CallTimeout: c.CallTimeout, HandoffTimeout: c.HandoffTimeout,
		BufferSize: c.Limits.BufferSize, ShardBytes: c.Limits.ShardBytes, BufferBytes: c.Limits.BufferBytes,
		Window: c.Limits.Window, MaxBuffered: c.Limits.MaxBuffered, AnswerBytes: c.Limits.AnswerBytes, Store: c.Store,
		DirectListen: c.Direct.Listen, DirectAdvertise: c.Direct.Advertise, DirectDial: c.Direct.Dial,
		Interceptors: engineInterceptors(c.Interceptors), Tracing: newEngineTracing(c.Tracing), Logger: c.Logger, Capacity: c.Capacity, Zone: c.Zone,
		CallError: newCallError, ReadCallError: readCallError, Cause: CauseOf,
	}
	if c.Limits.SingletonBuffer != nil {
		e.SingletonBuffer = *c.Limits.SingletonBuffer
	}
	return e
}

func (c Config) membershipConfig(self transport.Address, seeds []string, meta, compat []membership.KeyValue) membership.Config {
	cfg := membership.Config{
		Self: self, Cluster: c.Cluster, Roles: c.Roles, Seeds: seeds, Meta: meta, Compat: compat, Differ: hostmeta.Differ,
		Seed: self.Incarnation, ProbeVacancy: true, Founding: c.Store != nil,
	}
	c.Membership.Configure(&cfg)
	return cfg
}

// DirectOptions let processes exchange data frames over TCP connections instead of over the broker.
// Two processes then have one connection for each lane. A call that waits only for the network
// takes about a third of the time that it takes over the broker. All other messages go over the
// broker, and so do data frames while there is no TCP connection. The connections are encrypted
// with keys that each process makes when it starts. A process with direct lanes also works together
// with a process without them.
type DirectOptions struct {
	// Listen is the TCP address at which the process accepts connections, as host:port; with port
	// 0 the system chooses one. A client ([Dial]) never listens. Default "": it does not
	// listen.
	Listen string
	// Advertise is the host, or host:port, at which others reach Listen. It must be set if
	// Listen names no address of this host, as ":7000". Default: the address of Listen.
	Advertise string
	// Dial makes the process connect to processes that listen. Listen implies it. Default false.
	Dial bool
}
