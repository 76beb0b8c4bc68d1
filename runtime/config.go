package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Config is what a node or a connection needs to know. Cluster and Transport
// must be set; the zero value of everything else is its default.
type Config struct {
	// Cluster names the cluster: 1 to 64 of A-Z a-z 0-9 _ -.
	Cluster string
	// Transport reaches the other processes; see packages natstransport and memory.
	Transport transport.Transport
	// Name is the node's name, unique in the cluster, of the same characters.
	// Default "<hostname>-<pid>".
	Name string
	// Roles of this node, to be asked for by name. Default none.
	Roles []string
	// Seeds are names of nodes to join; the first one may found the cluster.
	// Default none: nodes find each other over the broker. A name that no member had
	// within 10 times Membership.SeedTimeout is logged once: it may be misspelt.
	Seeds []string
	// JoinByCommand makes the node wait, connected, until [Node.Join] is called or
	// an operator tells it to join (shardctl join). Start returns then when it is
	// connected. Default false: Start joins.
	JoinByCommand bool
	// MinMembers is how many members the cluster waits for before the first is
	// Up. Default 1.
	MinMembers int
	// MinRoleMembers are further minimums, by role: so many members with the role
	// must have come before the first is Up. Default none.
	MinRoleMembers map[string]int
	// Membership tunes failure detection and gossip.
	Membership Membership
	// Lanes is the number of data connections, 1 to 64; all processes of a cluster
	// must agree. Each is read by one goroutine, and a shard's calls take one of
	// them. More than one helps where a process has many cores and takes several
	// 100,000 quick calls a second; below that it only makes batches smaller.
	// Default 1.
	Lanes int
	// CallTimeout bounds calls without a deadline of their own. Default 5s,
	// minimum 1ms.
	CallTimeout time.Duration
	// JoinTimeout bounds joining, also under the name of a node that is still
	// alive, and Dial. A node that has joined waits for MinMembers as long as the
	// context of Start allows. Default 30s, minimum 1s.
	JoinTimeout time.Duration
	// HandoffTimeout bounds two steps of a shard's move: until its turns and stop
	// hooks have ended, and from then on until its new home has its state. If
	// either lasts longer, the shard stays. Default 60s, minimum 1s.
	HandoffTimeout time.Duration
	// LeaveTimeout bounds giving all shards away in Shutdown. Default 60s,
	// minimum 1s.
	LeaveTimeout time.Duration
	// BufferSize bounds the calls that wait at this process while their shards
	// have no home. Default 100,000, minimum 1.
	BufferSize int
	// MailboxSize bounds the calls that wait for one entity. Default 1,000,
	// minimum 1.
	MailboxSize int
	// MailboxBytes bounds the calls that wait for one entity by the bytes of their
	// arguments, ids and method names; for a type, see [MailboxBytes]. Default 8 MiB,
	// 64 KiB to 1 GiB.
	MailboxBytes int
	// ShardBytes bounds the calls that wait in one shard in the same way: for turns of
	// its entities, or while the shard moves to this process or away. Default 32 MiB,
	// at least MailboxBytes, at most 1 GiB.
	ShardBytes int
	// BufferBytes bounds the calls that wait at this process in the same way: in all
	// shards that are here, and for shards without a home. Calls of this process that
	// wait on their callers' goroutines take no part, for they are not encoded. Tells of
	// this process whose turns have begun may take as much again. Default 128 MiB, at
	// least ShardBytes, at most 1 TiB.
	BufferBytes int
	// Window is how many bytes one peer may have under way to this process on
	// one lane. Default 1 MiB, 64 KiB to 16 MiB.
	Window int
	// MaxBuffered is how many bytes are kept for one peer on one lane before
	// calls to it are refused. Default 8 MiB, at least Window.
	MaxBuffered int
	// SingletonBuffer bounds the calls that wait at this process for a singleton
	// that has no instance at the moment: when it is full the oldest is dropped and
	// fails with ErrBufferFull. Default 1,000, at most 10,000, as in Akka;
	// NoBuffer (-1) drops every call that finds no instance.
	SingletonBuffer int
	// MaxMoves bounds the shards of a type that move at once to even them out. Default 3,
	// minimum 1. Leaving nodes are emptied faster.
	MaxMoves int
	// RebalanceThreshold is by how many shards of a type two nodes may differ.
	// Default 1, minimum 1.
	RebalanceThreshold int
	// RebalanceInterval is how long a shard stays where it is after its move to
	// even them out was given up. Default 10s, minimum 1s.
	RebalanceInterval time.Duration
	// Gateway lets any client of the broker call the types that this node hosts, in
	// JSON or protobuf, by a request to sh.<cluster>.gw.<kind>.<method>.<id>. Who may
	// publish there is the broker's affair. Default false.
	Gateway bool
	// Logger gets what operators should know. Default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName()
	}
	set(&c.MinMembers, 1)
	set(&c.Lanes, 1)
	set(&c.CallTimeout, 5*time.Second)
	set(&c.JoinTimeout, 30*time.Second)
	set(&c.HandoffTimeout, 60*time.Second)
	set(&c.LeaveTimeout, 60*time.Second)
	set(&c.BufferSize, 100_000)
	set(&c.MailboxSize, 1_000)
	set(&c.MailboxBytes, 8<<20)
	set(&c.ShardBytes, max(32<<20, c.MailboxBytes))
	set(&c.BufferBytes, max(128<<20, c.ShardBytes))
	set(&c.Window, 1<<20)
	set(&c.MaxBuffered, max(8<<20, c.Window))
	set(&c.SingletonBuffer, 1_000)
	set(&c.MaxMoves, 3)
	set(&c.RebalanceThreshold, 1)
	set(&c.RebalanceInterval, 10*time.Second)
	c.Membership = c.Membership.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Bounds of what is bounded by bytes.
const (
	minBytes = 64 << 10
	maxBytes = 1 << 30
)

// NoBuffer is the Config.SingletonBuffer of a process whose calls never wait.
const NoBuffer = -1

func (c *Config) singletonBuffer() int { return max(c.SingletonBuffer, 0) }

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// defaultName is <hostname>-<pid> with what a name cannot hold replaced.
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

// validate returns every fault of a config with defaults.
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
	bad(c.Transport != nil, "Transport is nil (set natstransport.New(url))")
	bad(c.MinMembers >= 1, "MinMembers is %d: want at least 1", c.MinMembers)
	bad(c.Lanes >= 1 && c.Lanes <= 64, "Lanes is %d: want 1 to 64", c.Lanes)
	bad(c.CallTimeout >= time.Millisecond, "CallTimeout is %v: want at least 1ms", c.CallTimeout)
	bad(c.JoinTimeout >= time.Second, "JoinTimeout is %v: want at least 1s", c.JoinTimeout)
	bad(c.HandoffTimeout >= time.Second, "HandoffTimeout is %v: want at least 1s", c.HandoffTimeout)
	bad(c.LeaveTimeout >= time.Second, "LeaveTimeout is %v: want at least 1s", c.LeaveTimeout)
	bad(c.BufferSize >= 1, "BufferSize is %d: want at least 1", c.BufferSize)
	bad(c.MailboxSize >= 1, "MailboxSize is %d: want at least 1", c.MailboxSize)
	bad(c.MailboxBytes >= minBytes && c.MailboxBytes <= maxBytes, "MailboxBytes is %d: want 64 KiB to 1 GiB", c.MailboxBytes)
	bad(c.ShardBytes >= c.MailboxBytes && c.ShardBytes <= maxBytes, "ShardBytes is %d: want at least MailboxBytes (%d), at most 1 GiB", c.ShardBytes, c.MailboxBytes)
	bad(c.BufferBytes >= c.ShardBytes && int64(c.BufferBytes) <= maxBytes<<10, "BufferBytes is %d: want at least ShardBytes (%d), at most 1 TiB", c.BufferBytes, c.ShardBytes)
	bad(c.Window >= 64<<10 && c.Window <= 16<<20, "Window is %d: want 64 KiB to 16 MiB", c.Window)
	bad(c.MaxBuffered >= c.Window, "MaxBuffered is %d: want at least Window (%d)", c.MaxBuffered, c.Window)
	bad(c.SingletonBuffer >= NoBuffer && c.SingletonBuffer <= 10_000, "SingletonBuffer is %d: want 1 to 10000, or NoBuffer", c.SingletonBuffer)
	bad(c.MaxMoves >= 1, "MaxMoves is %d: want at least 1", c.MaxMoves)
	bad(c.RebalanceInterval >= time.Second, "RebalanceInterval is %v: want at least 1s", c.RebalanceInterval)
	bad(c.RebalanceThreshold >= 1, "RebalanceThreshold is %d: want at least 1", c.RebalanceThreshold)
	c.validateMembership(bad)
	return errors.Join(errs...)
}
