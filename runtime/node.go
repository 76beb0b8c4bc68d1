package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// The names that user code and generated code share with package codegen.
type (
	// Caller makes calls: a [*Node] or a [*Conn].
	Caller = codegen.Caller
	// CallOption tunes one reference; see [Timeout].
	CallOption = codegen.CallOption
	// Activation tells OnActivate why the entity comes to life.
	Activation = codegen.Activation
	// Passivation tells OnPassivate why the entity is put to rest.
	Passivation = codegen.Passivation
)

// Why an entity comes to life or is put to rest.
const (
	Fresh   = codegen.Fresh
	Resumed = codegen.Resumed
	Moved   = codegen.Moved

	Idle      = codegen.Idle
	Moving    = codegen.Moving
	Stopping  = codegen.Stopping
	Forgotten = codegen.Forgotten
)

// Timeout bounds each call of a reference. Default Config.CallTimeout for calls
// whose context has no deadline.
func Timeout(d time.Duration) CallOption {
	return func(o *codegen.CallOptions) { o.Timeout = d }
}

// A Node is one member of a cluster. Its life is New, HostX for each type it
// hosts, Start (or Run), and Shutdown or Close; it cannot be started again.
// Clients work from New on: their calls wait until the node is up.
type Node struct {
	cfg     Config
	log     *slog.Logger
	plane   *plane
	control *control
	memory  *memory
	events  events
	cfgErr  error

	mu      sync.Mutex
	state   nodeState
	hostErr []error
	err     error // why it ended
	link    transport.Link
	give    context.CancelFunc // gives connecting up; nil unless opening

	ordered  sync.Once     // told to leave
	up       chan struct{} // closed when Up, or ended
	upOnce   sync.Once
	gone     chan struct{} // closed when the cluster let it go in order
	goneOnce sync.Once
	done     chan struct{} // closed when everything has stopped
	end      sync.Once
}

type nodeState int

const (
	stateNew     nodeState = iota
	stateOpening           // connects; New again if that fails
	stateStarted
	stateEnding
)

// New returns a node with that config. It does no I/O; what is wrong with the
// config is said by Start.
func New(cfg Config) *Node {
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, cfgErr: cfg.validate(),
		up: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	self := transport.Peer{Address: transport.Address{Name: cfg.Name, Incarnation: rand.Uint64()}}
	n.log = cfg.Logger.With("node", cfg.Name)
	cfg.Logger = n.log
	n.plane = newPlane(cfg, self, nil)
	n.control = newControl(n)
	n.memory = newMemory(n)
	n.plane.memory = n.memory
	n.plane.ctl = n.control
	return n
}

// Name is the node's name, unique in its cluster.
func (n *Node) Name() string { return n.cfg.Name }

// ShardPort is for generated code.
func (n *Node) ShardPort(k codegen.Kind) codegen.Port { return port{n.plane.callable(k)} }

// Host makes the node host a type. It is for generated code: call the type's
// HostX. After Start it is an error, for joining has checked the types; every
// error is also returned by Start.
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
		return fmt.Errorf("host %s: no factory (pass a function that returns a new one)", h.Name)
	}
	k := n.plane.kind(h.Kind)
	switch {
	case k.err != nil:
		return fmt.Errorf("host %s: %w", h.Name, k.err)
	case k.declared != nil:
		return fmt.Errorf("host %s: hosted already (two types of one name? set name= in one's directive)", h.Name)
	case k.desc.Singleton != h.Singleton:
		return fmt.Errorf("host %s: %w: it is called as a singleton and hosted as an entity, or the other way round (set name= in one's directive)", h.Name, ErrMismatch)
	case k.desc.Package != h.Package:
		return fmt.Errorf("host %s: %w: it is a type of %s and of %s (set name= in one's directive)", h.Name, ErrMismatch, k.desc.Package, h.Package)
	}
	settings := defaultHostSettings(n.cfg)
	if h.Singleton {
		settings = singletonHostSettings(n.cfg)
	}
	for _, o := range opts {
		o(&settings)
	}
	if err := settings.validate(h.Name, h.Stateful); err != nil {
		return err
	}
	if err := settings.validateSingleton(h.Kind); err != nil {
		return err
	}
	if err := settings.validateRemember(h.Kind); err != nil {
		return err
	}
	if settings.hostsAt(n.cfg.Roles) {
		host, err := newHost(n.plane, k, h, settings)
		if err != nil {
			return err
		}
		k.host = host
	}
	k.declared = &settings
	return nil
}

// declared are the types that HostX was called for, as host or as proxy, in
// order of name.
func (n *Node) declared() []*kind {
	var kinds []*kind
	for _, k := range *n.plane.kinds.Load() {
		if k.declared != nil {
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b *kind) int { return cmp.Compare(a.desc.Name, b.desc.Name) })
	return kinds
}

// strategies are the types' own, for the coordinator.
func (n *Node) strategies() coordinator.Strategies {
	all := coordinator.Strategies{}
	for _, k := range n.declared() {
		if s := k.declared.place; s != nil {
			all[s.String()] = s
		}
	}
	return all
}

// hosted are the hosted types in order of name.
func (n *Node) hosted() []*host {
	var hosts []*host
	for _, k := range *n.plane.kinds.Load() {
		if k.host != nil {
			hosts = append(hosts, k.host)
		}
	}
	slices.SortFunc(hosts, func(a, b *host) int { return cmp.Compare(a.desc.Name, b.desc.Name) })
	return hosts
}

func (n *Node) hostedShard(id placement.ShardID) *hostedShard {
	k := (*n.plane.kinds.Load())[id.Kind]
	if k == nil || k.host == nil {
		return nil
	}
	return k.host.shard(id.Shard)
}

// inventory is what the node registers with a coordinator.
func (n *Node) inventory() (kinds []coordinator.KindInfo, owned []coordinator.Owned) {
	for _, h := range n.hosted() {
		if h.instance != nil {
			continue // where a singleton lives is not the coordinator's affair
		}
		kinds = append(kinds, coordinator.KindInfo{
			Name: h.desc.Name, Package: h.desc.Package, Shards: h.kind.shards, HashName: h.desc.HashName, Hosts: !h.stopped.Load(),
			Tuning: h.settings.tuning(),
		})
		for i := range h.shards {
			if o, ok := h.shards[i].owned(); ok {
				owned = append(owned, o)
			}
		}
	}
	return kinds, owned
}

// holdsShards tells whether any shard is still here, or on its way here or away.
func (n *Node) holdsShards() bool {
	for _, h := range n.hosted() {
		if h.instance != nil {
			continue // see singles.settled
		}
		for i := range h.shards {
			s := &h.shards[i]
			if o, ok := s.owned(); ok && (o.State != coordinator.Forwarding || s.holdsCalls()) {
				return true
			}
		}
	}
	return false
}

func (n *Node) connState(ch transport.Channel, s transport.State) {
	n.plane.connState(ch, s)
	if ch == transport.Control {
		n.control.connState(s)
	}
}

// Run is Start, then waiting for ctx to end, then Shutdown within
// Config.LeaveTimeout and some. It returns nil after leaving in order, or why
// the node ended otherwise.
func (n *Node) Run(ctx context.Context) error {
	if err := n.Start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-n.done:
		return n.Err()
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.LeaveTimeout+10*time.Second)
	defer cancel()
	return n.Shutdown(leave)
}

// Shutdown leaves the cluster in order: the node gives its shards and their
// state to others, which takes at most Config.LeaveTimeout, waits up to 2.5 s more until
// they have acknowledged what it passed on to them, says goodbye and stops. It returns
// nil when that is done. When ctx ends first the node stops at once, and Shutdown returns
// ctx's error within a second: what methods, hooks or the broker hold up goes on until
// [Node.Done] is closed. Calls by this node's own clients fail once it has stopped. It may
// be called twice.
func (n *Node) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	started := n.state == stateStarted
	n.mu.Unlock()
	if !started {
		n.stop(nil)
		return n.awaitEnd(ctx)
	}
	n.control.leave()
	patience := time.NewTimer(n.cfg.LeaveTimeout)
	defer patience.Stop()
	for {
		select {
		case <-n.gone:
			n.stop(n.sayFarewell(ctx))
			return n.awaitEnd(ctx)
		case <-n.done:
			return n.Err()
		case <-patience.C:
			n.log.Warn("leaving with shards that could not be given away", "after", n.cfg.LeaveTimeout)
			n.control.exit()
		case <-ctx.Done():
			n.stop(fmt.Errorf("shut down node %s: %w: it had not left in order (give Shutdown more time)", n.cfg.Name, ctx.Err()))
			return n.awaitEnd(ctx)
		}
	}
}

// sayFarewell ends the data plane in order, unless ctx ends first: hooks, the store and
// the broker may hold it up.
func (n *Node) sayFarewell(ctx context.Context) error {
	said := make(chan struct{})
	n.plane.wg.Go(func() {
		defer close(said)
		n.farewell(ctx)
	})
	select {
	case <-said:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shut down node %s: %w: it had left, and its goodbye was cut short (give Shutdown more time)", n.cfg.Name, err)
	}
	return nil
}

// endGrace is how long after the end of its context Shutdown waits for a node that
// stops.
const endGrace = 500 * time.Millisecond

// awaitEnd waits until the node has stopped, not much longer than ctx.
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
	return fmt.Errorf("shut down node %s: %w: it stops, and methods or the broker hold it up (give Shutdown more time)", n.cfg.Name, ctx.Err())
}

// Close stops at once, without leaving: the others find out. It waits five seconds at
// most for running methods, whose contexts have ended. It may be called twice.
func (n *Node) Close() error {
	n.stop(nil)
	<-n.done
	return nil
}

// Done is closed when the node has stopped, for whatever reason.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err tells why the node stopped: nil before that and after Shutdown or Close,
// [ErrDowned] when the others declared it dead.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// isUp: the cluster has let the node in.
func (n *Node) isUp() { n.upOnce.Do(func() { close(n.up) }) }

// left: the cluster has let the node go.
func (n *Node) left() { n.goneOnce.Do(func() { close(n.gone) }) }

// fail ends the node from the control loop.
func (n *Node) fail(err error) {
	n.log.Error("node ends", "err", err)
	n.stop(err)
}

// turnPatience is how long a node that stops waits for running turns, whose
// contexts have ended, before it counts as stopped without them.
const turnPatience = 5 * time.Second

// stop begins the end; done is closed when it is complete.
func (n *Node) stop(err error) {
	n.end.Do(func() {
		n.mu.Lock()
		n.state, n.err = stateEnding, err
		link := n.link
		if n.give != nil {
			n.give() // begin closes what it has
		}
		n.mu.Unlock()
		n.plane.close()
		go func() { // waits for all others, so it belongs to no group
			if link != nil {
				n.plane.wg.Go(func() { _ = link.Close() })
			}
			ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
			defer cancel()
			if !n.plane.waitEnd(ctx) {
				n.log.Error("turns go on although the node has stopped: their methods ignore their contexts, or the broker's connection does not end", "after", turnPatience)
			}
			n.upOnce.Do(func() { close(n.up) })
			close(n.done)
		}()
	})
}
