package singleton

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

const (
	kindName    = "it"
	clusterName = "c"
)

// actor is a process: the real control plane and singleton hosting, with the world's time, messages
// and membership.
type actor struct {
	run       *run
	node      *sim.Node
	self      transport.Peer
	control   *control.Member
	machine   machine
	singles   *singlehost.Set
	instance  *singlehost.Instance
	shard     shardhost.Shard
	waiting   []func()      // inputs that arrived while the process stood still
	wakeAt    time.Duration // of the next tick of the control plane; 0 means none is planned
	storeless bool          // the store of leases cannot be reached
	exiting   bool          // the process takes no more shards
	serves    bool          // the process serves others that have no table
	found     singleton.Placement
	links     map[transport.Address]*link
	gone      map[transport.Address]bool // processes whose messages are ignored
	left      map[transport.Address]bool // processes that left in order

	// The following fields are for the oracle.
	killed bool
	active bool // from the beginning of OnActivate until the end of the stop hooks
	life   int  // the number of the instance, so that a late timer ends no later instance
	failed int  // the number of the instance that has failed, and runs no more turns
	value  *value
	tasks  int // the number of running tasks
}

func newActor(r *run, n *sim.Node) *actor {
	a := &actor{
		run: r, node: n, self: transport.Peer{Address: n.Address},
		links: map[transport.Address]*link{}, gone: map[transport.Address]bool{}, left: map[transport.Address]bool{},
	}
	a.machine.actor = a
	a.shard.Init(placement.ShardID{Kind: kindName, Shard: 1}, (*home)(a), &shardhost.Config{
		Kind: []byte(kindName), Self: n.Address, CallTimeout: 5 * time.Second, HandoffTimeout: handoffTimeout,
		Clock: new(atomic.Uint32), Keeps: func(e *region.Entity) bool { return a.instance.KeepLocked(e) },
	}, region.Limits{Mailbox: 1000, Waiting: 1000, Lead: codegen.SingletonID})
	a.instance = singlehost.NewInstance(&a.shard, (*home)(a))
	a.control = control.New(control.Config{
		Cluster: clusterName, Self: a.self, Lanes: 1, SeedTimeout: time.Second, JoinTimeout: time.Minute, QuarantineAfter: time.Minute,
	}, (*controlEnv)(a))
	err := a.control.Prepare(control.Setup{
		Members:     func([]string) (control.Machine, error) { return &a.machine, nil },
		Coordinator: coordinator.Config{},
		Hosts:       true,
		Singletons:  a.host,
		Callable:    func(string) singlehost.Callable { return (*caller)(a) },
	})
	if err != nil {
		panic(err) // a mistake of the plan
	}
	return a
}

// handoffTimeout bounds the activation of an instance.
const handoffTimeout = 10 * time.Second

func (a *actor) host(p singlehost.Process) (*singlehost.Set, error) {
	a.singles = singlehost.NewSet(p, clusterName, a.self)
	h := singlehost.Hosting{
		Type: kindName, Instance: a.instance, Leases: (*requests)(a),
		Options: singleton.Options{
			HandoffRetry: a.run.plan.retry, MaxHandoffRetries: 5, RestartBackoff: 50 * time.Millisecond, MaxRestartBackoff: time.Second,
			Lease: a.run.plan.guard == byLease, LeaseTTL: leaseTTL, LeaseRetry: 300 * time.Millisecond,
		},
	}
	return a.singles, a.singles.Host(h)
}

func (a *actor) over() bool {
	if a.node.Ended() {
		a.active, a.tasks = false, 0
		return true
	}
	return false
}

// pollEvery is the polling interval for changes without an event, such as the end of a pause.
const pollEvery = 20 * time.Millisecond

// do runs the function what: at once, or when a frozen process goes on. An ended process never runs
// it.
func (a *actor) do(what func()) {
	switch {
	case a.over():
	case a.node.Frozen():
		a.waiting = append(a.waiting, what)
		if len(a.waiting) == 1 {
			a.run.world.After(pollEvery, a.thaw)
		}
	default:
		what()
		a.check()
	}
}

func (a *actor) thaw() {
	if a.over() {
		return
	}
	if a.node.Frozen() {
		a.run.world.After(pollEvery, a.thaw)
		return
	}
	kept := a.waiting
	a.waiting = nil
	for _, what := range kept {
		a.do(what)
	}
}

func (a *actor) after(d time.Duration, what func()) {
	a.run.world.After(d, func() { a.do(what) })
}

func (a *actor) loop(what func()) {
	what()
	at := max(1, a.control.WakeAt().Sub(epochStart))
	if a.wakeAt != 0 && at >= a.wakeAt {
		return
	}
	a.wakeAt = at
	a.after(max(at-a.run.world.Now(), time.Millisecond), func() {
		if a.wakeAt == at {
			a.wakeAt = 0
			a.loop(a.control.Tick)
		}
	})
}

func (a *actor) onLoop(what func()) { a.after(0, func() { a.loop(what) }) }

func (a *actor) changed(v *membership.View, events []membership.Event) {
	a.machine.view, a.machine.news = v, membership.Output{Changed: true, Events: events}
	a.loop(func() { a.control.ConnState(transport.State{Connected: true}) })
}

func (a *actor) check() {
	err := a.control.Check()
	if err == nil {
		err = a.shard.Core.Check()
	}
	if err != nil {
		a.run.fail("%v: %w", a.self.Address, err)
	}
	a.run.check()
}

var epochStart = time.Unix(1_000_000, 0)

func (a *actor) now() time.Time { return epochStart.Add(a.run.world.Now()) }

func (a *actor) mayTurn() bool {
	return !a.over() && !a.node.Frozen() && a.run.world.Lease(a.node) && a.instance.LeaseValid()
}

// mayRun reports whether an active instance, or a task of one, may run now. The member's own
// lease counts only if the guard is downing.
func (a *actor) mayRun() bool {
	if !a.active && a.tasks == 0 || a.over() || a.node.Frozen() || !a.instance.LeaseValid() {
		return false
	}
	return a.run.plan.guard != byDowning || a.run.world.Lease(a.node)
}

func (a *actor) seen() transport.Address {
	for _, row := range a.singles.Rows(a.control.View()) {
		if row.Kind == kindName {
			return row.Node
		}
	}
	return transport.Address{}
}

func (a *actor) String() string {
	return fmt.Sprintf("%v (active %v, %d tasks, finds it at %s, its shard is %v)", a.node.Address, a.active, a.tasks, a.seen().Name, a.shard.Core.State())
}

// machine gives the control plane the membership that the world runs.
type machine struct {
	actor *actor
	view  *membership.View
	news  membership.Output // changes that the control plane has not taken yet
}

var _ control.Machine = (*machine)(nil)

// View returns the latest view that the control plane was given.
func (m *machine) View() *membership.View { return m.view }

// Step passes Leave and ExitReady from the control plane to the membership, and returns what has
// changed there since the last call.
func (m *machine) Step(_ time.Time, in membership.Input) membership.Output {
	switch in.(type) {
	case membership.Leave, membership.ExitReady:
		m.actor.run.world.Give(m.actor.node, in)
	}
	out := m.news
	m.news = membership.Output{}
	return out
}

type caller actor

// Found records where the instance runs.
func (c *caller) Found(node transport.Address, epoch placement.Epoch, hosts bool) {
	if !hosts {
		c.shard.Place(node, epoch, 0)
	}
	c.found = singleton.Placement{Node: node, Epoch: epoch}
	c.run.counts.Found++
	c.run.trace("%s finds the instance at %s under %v", c.self.Name, node.Name, epoch)
}
