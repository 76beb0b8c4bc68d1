package shard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Node is one member of a cluster. Create it with New, call HostX for each type X that it hosts,
// and then call Start (or Run). End it with Shutdown or Close; an ended Node cannot be started
// again. A Node is safe for concurrent use. Generated clients may use it right after New: their
// calls wait until the node is up.
type Node struct {
	cfg     Config
	log     *slog.Logger
	driver  *node.Driver
	control *controlLoop
	memory  *remembering.Memory
	events  events
	lines   operator.EventLog // its latest log lines, for operators
	made    time.Time
	options map[string]*hostSettings // the options of each type given to HostX; set before Start
	cfgErr  error

	mu         sync.Mutex
	state      nodeState
	hostErr    []error
	feeds      []*feeds.Feed // the feeds given to Consume
	err        error         // the reason why the node ended
	link       transport.Link
	give       context.CancelFunc // cancels connecting; nil unless the state is stateOpening
	leaveAt    time.Time          // when Shutdown leaves the cluster; zero means not yet called
	probe      storeProbe         // begun under mu
	tableProbe storeProbe         // of the membership table; used under watch.mu
	watch      watch              // its lock is taken before mu
	store      string             // the identity of Config.Store, set by begin; "" without one

	ordered  sync.Once     // begins leaving, on an operator's command
	up       chan struct{} // closed when Up, or ended
	upOnce   sync.Once
	gone     chan struct{} // closed when the cluster has removed the node, after Shutdown
	goneOnce sync.Once
	goodbye  sync.Once     // begins drain
	said     chan struct{} // closed at the end of drain
	done     chan struct{} // closed when everything has stopped
	end      sync.Once

	// endRequests ends the gateway and waits for its requests; nil without a gateway. It may be
	// called several times.
	endRequests func()
}

var _ Caller = (*Node)(nil)

type nodeState int

const (
	stateNew     nodeState = iota
	stateOpening           // connects; stateNew again if that fails
	stateStarted
	stateEnding
)

// New returns a node with the given config. It does no I/O; Start returns the errors of the config.
func New(cfg Config) *Node {
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, cfgErr: cfg.validate(), made: time.Now(), options: map[string]*hostSettings{},
		up: make(chan struct{}), gone: make(chan struct{}), said: make(chan struct{}), done: make(chan struct{}),
	}
	self := transport.Peer{Address: transport.Address{Name: cfg.Name, Incarnation: identity.New(identity.Member)}}
	n.log = slog.New(operator.NewLogHandler(&n.lines, cfg.Logger.With("node", cfg.Name).Handler()))
	cfg.Logger = n.log
	n.driver = node.NewDriver(cfg.engine(), self, nil)
	n.control = newControlLoop(n)
	n.memory = remembering.New(rememberingNode{n})
	n.driver.Memory = n.memory
	n.driver.Control = n.control
	return n
}

// Name returns the node's name, unique in its cluster.
func (n *Node) Name() string { return n.cfg.Name }

// ShardInvoker is called by generated code only.
func (n *Node) ShardInvoker(k codegen.Kind) codegen.Invoker {
	return node.InvokerOf(n.driver.Callable(k))
}

// Host makes the node host a type. Only generated code calls it: users call the type's HostX. After
// Start, Host fails, because the node's types are compared with the members' types when the node
// joins. Start returns Host's errors too.
func (n *Node) Host(h codegen.Host, opts ...HostOption) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.hostLocked(h, opts)
	if err != nil {
		n.hostErr = append(n.hostErr, err)
	}
	return err
}

func (n *Node) hostLocked(h codegen.Host, opts []HostOption) error {
	if n.state != stateNew {
		return fmt.Errorf("host %s: %w (host every type before Start)", h.Name, ErrStarted)
	}
	if err := h.CheckMethods(); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if h.New == nil {
		return fmt.Errorf("host %s: the factory is nil (pass a function that returns a new entity)", h.Name)
	}
	k := n.driver.Kind(h.Kind)
	switch {
	case k.Err != nil:
		return fmt.Errorf("host %s: %w", h.Name, k.Err)
	case n.options[h.Name] != nil:
		return fmt.Errorf("host %s: the name is hosted already (if two types have the name, set name= in the directive of one)", h.Name)
	case k.Desc.Singleton != h.Singleton:
		return fmt.Errorf("host %s: %w: one type of this name is a singleton, another is an entity (set name= in the directive of one)", h.Name, ErrMismatch)
	case k.Desc.Package != h.Package:
		return fmt.Errorf("host %s: %w: packages %s and %s both have a type of this name (set name= in the directive of one)", h.Name, ErrMismatch, k.Desc.Package, h.Package)
	}
	if h.Durable && n.cfg.Store == nil {
		return fmt.Errorf("host %s: the type is durable, but Config.Store is nil (set it to the result of natsstore.Open)", h.Name)
	}
	settings := defaultHostSettings(n.cfg)
	switch {
	case h.Singleton:
		settings = singletonHostSettings(n.cfg)
	case h.Pool:
		settings.Handoff = poolHandoff
	}
	for _, o := range opts {
		o(&settings)
	}
	if err := settings.validate(h.Name, h.Stateful); err != nil {
		return err
	}
	if err := settings.validateSingleton(h.Kind, n.cfg.Store != nil); err != nil {
		return err
	}
	if err := settings.validatePool(k.Desc); err != nil {
		return err
	}
	if err := settings.validateRemember(h.Kind, n.cfg.Store != nil); err != nil {
		return err
	}
	if settings.hostsAt(n.cfg.Roles) {
		if n.cfg.Gateway && h.JSON == nil {
			return fmt.Errorf("host %s: Config.Gateway is set, and %w", h.Name, codegen.ErrNoJSON)
		}
		host, err := node.NewHost(n.driver, k, h, settings.Settings)
		if err != nil {
			return err
		}
		k.Host = host
		k.Encodes = k.Desc.Durable || len(settings.Intercept) > 0
	}
	n.options[h.Name] = &settings
	return nil
}

type declaredKind struct {
	*node.Kind
	options *hostSettings
}

func (n *Node) declared() []declaredKind {
	var kinds []declaredKind
	for name, k := range *n.driver.Kinds.Load() {
		if o := n.options[name]; o != nil {
			kinds = append(kinds, declaredKind{k, o})
		}
	}
	slices.SortFunc(kinds, func(a, b declaredKind) int { return cmp.Compare(a.Desc.Name, b.Desc.Name) })
	return kinds
}

func (n *Node) strategies() coordinator.Strategies {
	all := coordinator.Strategies{}
	for _, k := range n.declared() {
		if s := k.options.place; s != nil {
			all[s.String()] = s
		}
	}
	return all
}

func (n *Node) hosted() []*node.Host {
	var hosts []*node.Host
	for _, k := range *n.driver.Kinds.Load() {
		if k.Host != nil {
			hosts = append(hosts, k.Host)
		}
	}
	slices.SortFunc(hosts, func(a, b *node.Host) int { return cmp.Compare(a.Desc.Name, b.Desc.Name) })
	return hosts
}

func (n *Node) hostedShard(id placement.ShardID) *node.HostedShard {
	k := (*n.driver.Kinds.Load())[id.Kind]
	if k == nil {
		return nil
	}
	return k.Hosted(id.Shard)
}

func (n *Node) inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard) {
	for _, h := range n.hosted() {
		if h.Instance != nil {
			continue // the coordinator does not place singletons
		}
		kinds = append(kinds, coordinator.TypeInfo{
			Name: h.Desc.Name, Package: h.Desc.Package, Shards: h.Kind.Shards, HashName: h.Desc.HashName, Hosts: !h.Stopped.Load(),
			Tuning: n.options[h.Desc.Name].tuning(),
		})
		for i := range h.Shards {
			s := &h.Shards[i]
			if s.Durable != nil && s.Durable.Outgrown() {
				continue // it needs an epoch of a later term
			}
			if o, ok := s.Held(); ok {
				held = append(held, o)
			}
		}
	}
	return kinds, held
}

// inspectShards describes the shards that this node holds: those of the type kind, or those of all
// types if kind is "".
func (n *Node) inspectShards(kind string) (held []coordinator.InspectedShard) {
	for _, h := range n.hosted() {
		if kind != "" && h.Desc.Name != kind {
			continue
		}
		for i := range h.Shards {
			s := &h.Shards[i]
			o, ok := s.Held()
			if !ok {
				continue
			}
			s.Mu.Lock()
			held = append(held, coordinator.InspectedShard{
				ShardID: s.ID, State: o.State, Entities: uint32(s.Core.Entities()),
				Active: uint32(s.Core.Active()), Waiting: uint32(s.Core.Waiting()),
			})
			s.Mu.Unlock()
		}
	}
	return held
}

func (n *Node) connState(ch transport.Channel, s transport.State) {
	n.driver.ConnState(ch, s)
	if ch == transport.Control {
		n.control.connState(s)
	}
}

// Shutdown makes the node leave the cluster in order. From the call on, [Node.Health] is not ready.
//
//   - The node works on as before for Config.Membership.LeaveDelay.
//   - Its gateway receives no more requests; the broker sends them to other members' gateways. The
//     node waits until the requests that it has are answered, for at most half of
//     Config.Membership.LeaveTimeout.
//   - For the rest of LeaveTimeout, it gives its shards and their state to other members. It sends
//     waiting tells once their receivers have homes.
//   - If shards are still here then, the contexts of running methods end. For one more second the
//     node begins turns; then the contexts of these turns end too.
//   - Another second later the other members may start the entities that are still here, without
//     volatile state.
//   - The node waits up to 2.5s more for its methods to end and for acknowledgements of forwarded
//     calls. It waits without a bound until the store has the last changes of those durable
//     entities that no other node took over. Then the node stops, and Shutdown returns nil.
//
// If a method still runs 5s after the end of its context, the node stops waiting for it. Its
// callers get [ErrLost]; calls to durable entities are sent again. The node does not end the
// context of a method that runs on a local caller's goroutine.
//
// If ctx ends first, the node stops at once. Shutdown then returns the error of ctx within a
// second; the node has ended when [Node.Done] is closed. Shutdown may be called twice; the node
// stops at once when the ctx of either call ends.
func (n *Node) Shutdown(ctx context.Context) error {
	if !n.drainFirst(ctx) {
		n.stop(nil)
		return n.awaitEnd(ctx)
	}
	patience, over := time.NewTimer(n.cfg.Membership.LeaveTimeout), 0
	defer patience.Stop()
	requests{n}.end(ctx, n.cfg.Membership.LeaveTimeout/2)
	n.control.leave()
	for {
		select {
		case <-n.gone:
			n.stop(n.sayGoodbye(ctx))
			return n.awaitEnd(ctx)
		case <-n.done:
			return n.Err()
		case <-patience.C:
			switch over++; over {
			case 1:
				n.driver.Turning.End()
				patience.Reset(turnGrace)
			case 2:
				n.driver.Lease.End(runner.Closing)
				n.driver.Turning.End() // the contexts of turns that have begun since
				patience.Reset(turnGrace)
			default:
				n.log.Warn("leaving with shards that could not be given away",
					"after", n.cfg.Membership.LeaveTimeout+2*turnGrace, "turns", node.TurnsUnderWay(n.hosted()).String())
				n.control.exit()
			}
		case <-ctx.Done():
			n.stop(fmt.Errorf("shut down node %s: %w: the node had not left in order (give Shutdown more time)", n.cfg.Name, ctx.Err()))
			return n.awaitEnd(ctx)
		}
	}
}

// drainFirst makes the node not ready. If the node was up at the first call, drainFirst waits until
// Config.Membership.LeaveDelay has passed since that call, or until ctx or the node ends. It
// returns false if the node was not started.
func (n *Node) drainFirst(ctx context.Context) bool {
	n.mu.Lock()
	started := n.state == stateStarted
	if started && n.leaveAt.IsZero() {
		n.leaveAt = time.Now()
		select {
		case <-n.up:
			n.leaveAt = n.leaveAt.Add(n.cfg.Membership.LeaveDelay)
		default:
		}
	}
	delay := time.Until(n.leaveAt)
	n.mu.Unlock()
	if !started || delay <= 0 {
		return started
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.done:
	case <-ctx.Done():
	}
	return true
}

func (n *Node) leaveTime() time.Duration {
	return n.cfg.Membership.LeaveDelay + n.cfg.Membership.LeaveTimeout + 10*time.Second
}

func (n *Node) leaveByOrder() {
	n.ordered.Do(func() {
		go func() { // ends with the node, which does not wait for this goroutine
			ctx, cancel := context.WithTimeout(context.Background(), n.leaveTime())
			defer cancel()
			_ = n.Shutdown(ctx) // Err has the reason
		}()
	})
}

// sayGoodbye starts the drain of the data plane, unless an earlier call has, and waits for its end.
// Hooks, the store or the broker may delay the drain, so sayGoodbye waits at most until ctx ends,
// and then returns an error. Several goroutines may call it.
func (n *Node) sayGoodbye(ctx context.Context) error {
	n.goodbye.Do(func() {
		n.driver.Group.Go(func() {
			defer close(n.said)
			n.drain(n.driver.Context)
		})
	})
	select {
	case <-n.said:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shut down node %s: %w: the node has left, but had no time to drain (give Shutdown more time)", n.cfg.Name, err)
	}
	return nil
}

func (n *Node) drain(ctx context.Context) {
	n.driver.Lease.End(runner.Ending)
	n.mu.Lock()
	over := n.leaveAt.Add(n.cfg.Membership.LeaveTimeout) // leaveAt is zero at a node that gives joining up: it runs no method
	n.mu.Unlock()
	if now := time.Now(); over.Before(now) {
		over = now
	}
	n.stopEntities(ctx, over)
	n.memory.Flush(ctx)
	node.Drain{Driver: n.driver}.Run(ctx, over)
	n.driver.DropTells(time.Now()) // the node did not wait for their homes any longer
}

// stopEntities runs the stop hooks of the remaining entities, and waits until the store has the
// entities' changes. At the time over, it ends the contexts of the methods and tasks that still
// run. It waits for these methods and tasks until turnOvertime after over.
func (n *Node) stopEntities(ctx context.Context, over time.Time) {
	ender := time.AfterFunc(time.Until(over), n.driver.Turning.End)
	defer ender.Stop()
	turns, cancel := context.WithDeadline(ctx, over.Add(turnOvertime))
	defer cancel()
	for _, h := range n.hosted() {
		if h.Instance != nil {
			ended := make(chan struct{})
			h.Instance.Quit(func() { close(ended) })
			select {
			case <-ended:
			case <-turns.Done():
			}
		}
		for i := range h.Shards {
			h.Shards[i].Stop(turns)
		}
	}
	for _, h := range n.hosted() {
		for i := range h.Shards {
			if d := h.Shards[i].Durable; d != nil {
				d.LastCommits.Confirm(ctx)
			}
		}
	}
}

const (
	// turnGrace is how long a leaving node still begins turns after it has ended the contexts of
	// running turns. It then ends the new turns' contexts, and waits as long again. That suffices
	// to move shards whose turns end at once.
	turnGrace = time.Second
	// turnOvertime is how long a node that has left waits for methods and tasks after the end of
	// their contexts. SettlePatience then leaves time to acknowledge their answers.
	turnOvertime = node.SettlePatience - 500*time.Millisecond
)

// endGrace is how long Shutdown waits for the node after its ctx has ended.
const endGrace = 500 * time.Millisecond

func (n *Node) awaitEnd(ctx context.Context) error {
	select {
	case <-n.done:
		return n.Err()
	case <-ctx.Done():
	}
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case <-n.done:
		return n.Err()
	case <-grace.C:
	}
	if err := n.Err(); err != nil {
		return err
	}
	return fmt.Errorf("shut down node %s: %w: the node is still stopping, delayed by methods or the broker (give Shutdown more time)", n.cfg.Name, ctx.Err())
}

// Close stops the node at once without leaving, so the other members detect it as failed. Close
// ends the contexts of running methods and waits at most five seconds for the methods. It may be
// called twice.
func (n *Node) Close() error {
	n.stop(nil)
	<-n.done
	return nil
}

// Done returns a channel that is closed when the node has stopped, for any reason.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns the reason why the node stopped. It returns nil while the node runs, and after Close
// or a Shutdown without error. If the other members downed the node, the error wraps [ErrDowned].
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

func (n *Node) isUp() { n.upOnce.Do(func() { close(n.up) }) }

func (n *Node) left() { n.goneOnce.Do(func() { close(n.gone) }) }

// fail stops the node with an error. It is called on the control loop.
func (n *Node) fail(err error) {
	n.log.Error("node ends", "err", err)
	n.stop(err)
}

const (
	// turnPatience is how long a stopping node waits for running turns after the end of their
	// contexts.
	turnPatience = 5 * time.Second
	// leastPatience is the least time for which a stopping node waits for its goroutines, even if
	// turnPatience is over.
	leastPatience = time.Second
)

func (n *Node) stop(err error) {
	n.end.Do(func() {
		n.mu.Lock()
		n.state, n.err = stateEnding, err
		link := n.link
		if n.give != nil {
			n.give() // begin then closes the connections that it has opened
		}
		n.mu.Unlock()
		n.driver.Close()
		go func() { // it waits for all other goroutines, so it is not in their group
			if link != nil {
				n.driver.Group.Go(func() { _ = link.Close() })
			}
			now := time.Now()
			patience := max(n.driver.Turning.Ended(now).Add(turnPatience).Sub(now), leastPatience)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if !n.driver.Group.Wait(ctx) {
				n.log.Error("the node has stopped, and turns still run: their methods ignore their contexts, or the broker's connection does not close", "after", patience, "turns", node.TurnsUnderWay(n.hosted()).String())
			}
			n.upOnce.Do(func() { close(n.up) })
			close(n.done)
		}()
	})
}

// Health returns the node's health. It takes well under a millisecond. It does not wait for the
// store but reports the result of the node's last write. The node tries a write every 5s if it
// makes no others, and every 1s while writes fail. Every 5s Health may read credentials files.
func (n *Node) Health() Health { return healthOf(n.judge(time.Now())) }

// Counters returns how many calls, tells, frames and shards of this node did not take the usual
// path, by reason, such as "buffered", "forwarded", "retried", "refused", "expired", "tell lost"
// and "shards moved". The counts begin at New and only grow.
func (n *Node) Counters() map[string]uint64 { return n.driver.Counters() }

// tickClock advances the coarse clock, samples pools, and measures the load. Every second it also
// measures the control loop's delay, may stop timing turns, and starts a round of passivation.
func (n *Node) tickClock() {
	ticker, hosts := time.NewTicker(node.ClockTick), n.hosted()
	defer ticker.Stop()
	measured, reported := time.Duration(0), time.Duration(0) // since measuring and reporting
	defer n.driver.Load.Begin(n.driver.Lease.Now())()
	for {
		select {
		case <-n.driver.Stop:
			return
		case <-ticker.C:
		}
		for _, h := range hosts {
			if load, ok := h.Sample(); ok {
				n.control.loop.Post(func() { n.control.member.ToCoordinator(load) })
			}
		}
		if measured += node.ClockTick; measured >= coordinator.LoadInterval {
			measured = 0
			load := n.driver.Load.Measure(n.driver.Lease.Now(), hosts)
			n.driver.AddTrend(load)
			members := 0
			if v := n.control.member.View(); v != nil {
				members = len(v.ByAge)
			}
			if reported += coordinator.LoadInterval; reported >= coordinator.ReportInterval(members) {
				reported = 0
				report := reportOf(load)
				n.control.loop.Post(func() { n.control.member.ReportLoad(report) })
			}
		}
		if n.driver.Clock.Add(1)%node.TicksASecond != 0 {
			continue
		}
		n.control.pulse.Beat(n.driver.Lease.Now(), n.control.loop.Post)
		for _, h := range hosts {
			h.Second.Notify()
		}
	}
}

func (n *Node) startErr() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil && n.state == stateEnding {
		return fmt.Errorf("start node %s: %w", n.cfg.Name, n.driver.ErrClosed())
	}
	return n.err
}
