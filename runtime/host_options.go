package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A HostOption configures one hosted type at one node. The text of each option says whether members
// may differ in the option, as they do during a rolling restart.
type HostOption func(*hostSettings)

type hostSettings struct {
	node.Settings
	idleSet bool
	proxy   bool
	role    string
	place   Strategy // nil: the coordinator's default
	moves   int      // 0: the coordinator's default
	hosts   int
	pool    poolSettings

	single    singleton.Options
	singleSet bool

	handoffErr error            // the error of the options of Handoff
	remember   *RememberOptions // nil: entities are not remembered
}

func defaultHostSettings(cfg Config) hostSettings {
	return hostSettings{Settings: node.Settings{
		Idle: 2 * time.Minute, Inline: true, MailboxCalls: cfg.Limits.MailboxCalls, MailboxBytes: cfg.Limits.MailboxBytes,
		StopTimeout: max(cfg.HandoffTimeout-5*time.Second, time.Second),
		Backoff:     100 * time.Millisecond, BackoffMost: 10 * time.Second,
	}}
}

// singletonHostSettings are a singleton's defaults. A singleton is never passivated. Its methods do
// not run on their callers' goroutines, because a method's runtime.Goexit would end the caller.
func singletonHostSettings(cfg Config) hostSettings {
	s := defaultHostSettings(cfg)
	s.Idle, s.Inline = 0, false
	return s
}

// IdleAfter passivates entities that nobody has called for d: their state is kept encoded and the
// value is dropped. The runtime looks for idle entities every second or, if d is at least 32s, at
// intervals of up to 5s; so an entity is passivated up to one interval later than d. At most 64
// stop hooks of the type run at once, not counting hooks that have run for more than 1s. Default 2
// minutes, and 0 with [Remember]; minimum 1s; 0 never passivates. Members may differ.
func IdleAfter(d time.Duration) HostOption {
	return func(s *hostSettings) { s.Idle, s.idleSet = d, true }
}

// StopTimeout bounds how long OnPassivate of one entity may run. While the hook runs, the entity's
// calls wait, and so does a move of its shard; other entities go on. A hook still running after
// StopTimeout is abandoned, and its entity keeps the state from before the hook. The default is
// Config.HandoffTimeout less 5s, but at least 1s. Minimum 1ms. Members may differ.
func StopTimeout(d time.Duration) HostOption { return func(s *hostSettings) { s.StopTimeout = d } }

// MaxActive bounds the active entities of the type at one node. Above it, the least recently used
// ones are passivated. Entities that run a turn count too but are not passivated, so more than n
// may be active for a while. Default 0: no bound. Members may differ.
func MaxActive(n int) HostOption { return func(s *hostSettings) { s.MaxActive = n } }

// Inline sets whether a local call may run on its caller's goroutine. Default true: the call is
// fast and returns when its method returns, even past its deadline. With false the call returns at
// its deadline at the latest, but costs a goroutine switch. Members may differ.
func Inline(on bool) HostOption { return func(s *hostSettings) { s.Inline = on } }

// Proxy makes the type known at the node without hosting it. When the node joins, its declaration
// of the type is compared with the hosts' declarations, and a coordinator at this node can use the
// type's [Allocation]. Calls need no Proxy: a node that never calls the generated HostX can
// call the type as well.
func Proxy() HostOption { return func(s *hostSettings) { s.proxy = true } }

// HostRole limits hosting to nodes with that role; on other nodes the generated HostX works as with
// [Proxy]. Default "": all nodes host the type. Members must agree: a node with another HostRole
// for the type is refused when it joins.
func HostRole(role string) HostOption { return func(s *hostSettings) { s.role = role } }

// Allocation sets how the type's shards are placed: [LeastShards], [LoadWeighted], [Beside],
// [ConsistentHash] or a strategy of your own. A strategy of your own must be set at every node that
// may become the coordinator: in HostX, with or without [Proxy]. Default LeastShards with
// Config.Rebalance.Threshold. Members may differ: the value of the last member to join counts.
func Allocation(s Strategy) HostOption { return func(h *hostSettings) { h.place = s } }

// MaxMoves bounds how many shards of the type move for rebalancing at the same time. Default
// Config.Rebalance.MaxMoves, minimum 1. Members may differ: the value of the last member to join
// counts.
func MaxMoves(n int) HostOption { return func(s *hostSettings) { s.moves = n } }

// MinHosts is the number of members hosting the type that must be up before its shards get their
// first homes; calls wait until then. Default 1; Config.Membership.MinMembers counts members of all
// types. Members may differ: the value of the last member to join counts.
func MinHosts(n int) HostOption { return func(s *hostSettings) { s.hosts = n } }

// MaxMailboxCalls bounds the calls that wait for one entity of the type; further calls fail with
// [ErrOverloaded]. Default Config.Limits.MailboxCalls, minimum 1. Members may differ.
func MaxMailboxCalls(n int) HostOption { return func(s *hostSettings) { s.MailboxCalls = n } }

// MaxMailboxBytes bounds the bytes of the calls that wait for one entity of the type: their
// arguments, ids, method names and call chains. Further calls fail with [ErrOverloaded]. Default
// Config.Limits.MailboxBytes, 64 KiB to 1 GiB; Config.Limits.ShardBytes applies as well. Members may
// differ.
func MaxMailboxBytes(n int) HostOption { return func(s *hostSettings) { s.MailboxBytes = n } }

// Intercept sets the interceptors called around the type's turns at this node; the first one is
// outermost. Interceptors run before the entity is activated, know the caller, and may refuse the
// call. The method gets the context that the last interceptor passes to next. If a type has
// interceptors, its calls are encoded, even within one process. Unless the type is durable, its
// calls then do not run on their callers' goroutines. Hooks, tasks of singletons, and activations
// without a call are not intercepted. Default none. Members may differ, but then a call may be
// refused at one home and run at another.
func Intercept(interceptors ...Interceptor) HostOption {
	return func(s *hostSettings) { s.Intercept = append(s.Intercept, engineInterceptors(interceptors)...) }
}

// Strategies that place shards, for [Allocation].
type (
	// A Strategy decides where the shards of a type live. A strategy of your own must be
	// a pure function: the coordinator calls it with its view of the cluster and checks
	// the result.
	Strategy = placement.Strategy
	// LeastShards gives each shard to the member with the fewest shards of its
	// type.
	LeastShards = placement.LeastShards
	// LoadWeighted moves shards so that each member uses about the same share of its processors.
	LoadWeighted = placement.LoadWeighted
	// Beside gives each shard the home of the shard with the same number of another
	// type, named as Beside("Stock"), so that entities with the same id are together.
	Beside = placement.Beside
	// ConsistentHash chooses members by hashing the shard's number and their names. Few shards move
	// when a member joins or leaves.
	ConsistentHash = placement.ConsistentHash
)

func (s *hostSettings) validate(kind string, stateful bool) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{kind}, args...)...)
	}
	if s.handoffErr != nil {
		return fault("Handoff: %w", s.handoffErr)
	}
	if err := s.Handoff.CheckState(); stateful && err != nil {
		return fault("Handoff(%v): %w (want HandoffOrdered or HandoffDropState)", s.Handoff, err)
	}
	switch {
	case s.Idle != 0 && s.Idle < time.Second:
		return fault("IdleAfter(%v): want 0 or at least 1s", s.Idle)
	case s.MaxActive < 0:
		return fault("MaxActive(%d): want 0 for no bound, or more", s.MaxActive)
	case s.StopTimeout < time.Millisecond:
		return fault("StopTimeout(%v): want at least 1ms", s.StopTimeout)
	case s.Backoff < 0 || s.BackoffMost < s.Backoff || s.BackoffMost > time.Hour:
		return fault("RestartBackoff(%v, %v): want 0 or more, and the first not above the longest, at most 1h", s.Backoff, s.BackoffMost)
	case s.moves < 0 || s.moves > coordinator.MaxTuning:
		return fault("MaxMoves(%d): want 1 to %d", s.moves, coordinator.MaxTuning)
	case s.hosts < 0 || s.hosts > coordinator.MaxTuning:
		return fault("MinHosts(%d): want 1 to %d", s.hosts, coordinator.MaxTuning)
	case s.MailboxCalls < 1:
		return fault("MaxMailboxCalls(%d): want at least 1", s.MailboxCalls)
	case s.MailboxBytes < minBytes || s.MailboxBytes > maxBytes:
		return fault("MaxMailboxBytes(%d): want 64 KiB to 1 GiB", s.MailboxBytes)
	}
	if s.role != "" {
		if err := transport.CheckName("role", s.role); err != nil {
			return fault("HostRole: %w", err)
		}
	}
	if s.place != nil {
		if err := coordinator.CheckStrategyName(s.place.String()); err != nil {
			return fault("Allocation: %w", err)
		}
	}
	return nil
}

func (s *hostSettings) hostsAt(roles []string) bool {
	return !s.proxy && (s.role == "" || slices.Contains(roles, s.role))
}

func (s *hostSettings) tuning() coordinator.Tuning {
	t := coordinator.Tuning{MaxMoves: uint32(s.moves), MinHosts: uint32(s.hosts)}
	if s.place != nil {
		t.Allocation = s.place.String()
	}
	t.Pool = s.pool.announced
	return t
}

// notForSingletons returns why an option that is set is useless or harmful for a singleton; ""
// means that none is. For example, IdleAfter would drop the instance between turns, and its tasks
// would overlap the next instance's tasks.
func (s *hostSettings) notForSingletons() string {
	plain := defaultHostSettings(Config{})
	for _, o := range []struct {
		set bool
		why string
	}{
		{s.place != nil, "Allocation: a singleton lives on the oldest member"},
		{s.moves != 0 || s.hosts != 0, "MaxMoves and MinHosts are for types with shards, not for a singleton"},
		{s.Handoff != region.Handoff{}, "Handoff: a singleton is always handed off in order"},
		{s.Idle != 0, "IdleAfter: a singleton is never idle"},
		{s.MaxActive != 0, "MaxActive: a singleton has one instance, which is never passivated"},
		{s.Inline, "Inline: a singleton does not run on its callers' goroutines"},
		{s.Decide != nil, "Supervise: a singleton that panics is started again (tune it by shard.Singleton)"},
		{s.Backoff != plain.Backoff || s.BackoffMost != plain.BackoffMost, "RestartBackoff: set singleton.Options.RestartBackoff by shard.Singleton"},
	} {
		if o.set {
			return o.why
		}
	}
	return ""
}

// validateRemember checks options of Remember and fills in defaults. stored reports whether the
// node has a store.
func (s *hostSettings) validateRemember(k codegen.Kind, stored bool) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	r := s.remember
	if r == nil {
		return nil
	}
	if k.Singleton {
		return fault("Remember: a singleton starts without a call anyway")
	}
	if stored && r.Replicas != 0 {
		return fault("RememberOptions.Replicas is %d: want 0, because Config.Store keeps the ids", r.Replicas)
	}
	with := *r // the user may use the same value for several types
	r, s.remember = &with, &with
	if !s.idleSet {
		s.Idle = 0
	}
	set(&r.Replicas, 2)
	set(&r.Entities, 5)
	set(&r.Every, 100*time.Millisecond)
	set(&r.Backoff, 10*time.Second)
	set(&r.MaxPerShard, 10_000)
	switch {
	case r.Replicas < 1 || r.Replicas > 5:
		return fault("RememberOptions.Replicas is %d: want 1 to 5", r.Replicas)
	case r.Entities < 1:
		return fault("RememberOptions.Entities is %d: want at least 1", r.Entities)
	case r.Every < time.Millisecond:
		return fault("RememberOptions.Every is %v: want at least 1ms", r.Every)
	case r.Backoff < 10*time.Millisecond || r.Backoff > time.Hour:
		return fault("RememberOptions.Backoff is %v: want 10ms to 1h", r.Backoff)
	case r.MaxPerShard < 1 || r.MaxPerShard > 1_000_000:
		return fault("RememberOptions.MaxPerShard is %d: want 1 to 1000000", r.MaxPerShard)
	}
	s.Remembering = r.settings()
	return nil
}

// validateSingleton checks a singleton's settings. For other types, it refuses settings of
// singletons.
func (s *hostSettings) validateSingleton(k codegen.Kind, stored bool) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("host %s: "+format, append([]any{k.Name}, args...)...)
	}
	switch {
	case !k.Singleton && s.singleSet:
		return fault("shard.Singleton: %w (only for types with //shard:singleton)", ErrNotSingleton)
	case !k.Singleton:
		return nil
	}
	if why := s.notForSingletons(); why != "" {
		return fault("%s", why)
	}
	if s.single.Lease && !stored {
		return fault("singleton.Options.Lease is set, and Config.Store is nil (set what natsstore.Open returns)")
	}
	if err := s.single.Validate(); err != nil {
		return fault("%w", err)
	}
	return nil
}

// Singleton configures a singleton. It is refused with [ErrNotSingleton] for other
// types. Options for types with shards are refused for a singleton; [HostRole], [Proxy],
// [Intercept], [MaxMailboxCalls] and [StopTimeout] work for both.
func Singleton(o singleton.Options) HostOption {
	return func(h *hostSettings) { h.single, h.singleSet = o, true }
}

// RememberOptions configures how the entities of a type are remembered, with [Remember]. The
// zero value of each field is its default. Members may differ.
type RememberOptions struct {
	// Replicas is the number of other members that keep the ids of a shard if the node has no
	// Config.Store. Ids survive even if as many members as Replicas are lost at the same time, the
	// shard's home among them. Default 2, 1 to 5. With a Config.Store, which keeps the ids,
	// Replicas must be 0.
	Replicas int
	// ConstantRate makes this node activate entities in groups: a group has as many entities as the
	// field Entities says, and groups are the time Every apart. Default false: 64 activations at a
	// time, without a pause.
	ConstantRate bool
	// Entities is the number of entities in a group, with ConstantRate. Default 5, minimum 1.
	Entities int
	// Every is the time between two groups, with ConstantRate. Default 100ms, minimum 1ms.
	Every time.Duration
	// Backoff is the pause before an entity is activated again after its supervisor
	// stopped it or its activation failed. A call activates it earlier. Default 10s, 10ms
	// to 1h.
	Backoff time.Duration
	// MaxPerShard bounds the entities that a shard remembers. A call that would activate one
	// more fails with [ErrOverloaded]. Default 10,000, at most 1,000,000.
	MaxPerShard int
}

// Remember makes the runtime activate the type's active entities again, without a call, after their
// shard has moved or its home has crashed. With a [Config].Store, the store keeps the ids of these
// entities, and they are activated after a stop of all members too. An entity activated in this way
// has its state only if the state came with the shard's move.
//
// The first activation of an entity waits until its id is remembered. Without a store, it waits
// until another member has the id, but at most a second. With a store, it waits until the store has
// the id. If the store fails, the call fails with outcome NotExecuted. The entity is remembered
// until it calls [Passivate] or [Forget], its first activation fails, or [IdleAfter] (default 0
// with Remember) or [MaxActive] passivates it.
//
// With a Config.Store, the number of shards or the shard function may change: stop all members,
// then start them with the new one. Remember must be set at all members or at none: a node that
// differs is refused when it joins.
func Remember(r RememberOptions) HostOption {
	return func(s *hostSettings) { s.remember = &r }
}

func (r *RememberOptions) settings() *remembering.Settings {
	return &remembering.Settings{
		Replicas: r.Replicas, MaxPerShard: r.MaxPerShard,
		ConstantRate: r.ConstantRate, Entities: r.Entities, Every: r.Every, Backoff: r.Backoff,
	}
}
