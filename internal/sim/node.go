package sim

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/core/membership/table"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A Node is one incarnation of a process: its machine, its connection and the faults of both.
type Node struct {
	ID      int
	Address transport.Address
	Config  membership.Config
	machine Machine
	clock   clock
	lease   time.Time // the end of the lease, by the node's own clock

	wake  time.Duration // in virtual time; valid only if the node is in wakes
	place int           // the index in wakes, or -1

	home       *Server // the server to which the node connects first
	server     *Server // the server to which the node is connected, or was last
	conn       uint32  // the number of its connection; each new one has a higher number
	connected  bool    // as the process sees it
	registered bool    // as the server sees it
	redialing  bool
	closedAt   time.Duration // when the last connection ended
	known      []bool        // by server: whether the server knows that the node listens
	lastUp     time.Duration // when its last message reaches the server
	sent       []repeated    // the last messages, with Config.Repeat
	serves     bool          // answers joiners' probes
	claims     uint64        // the number of its claim to form the cluster; 0 means there is none

	started bool
	ended   bool // its machine has ended, or its process
	last    membership.Event
	frozen  bool
	waiting []membership.Input // arrived while frozen

	lossIn, lossOut float64
	brokenSince     time.Duration // since when one direction of the connection is dead; -1 means none is

	tableCut  bool        // the node cannot reach the table
	lastTable *rows.Table // the table that was checked last
	traffic   Traffic
	track     tracked
	state     *gossip.State // after the last step
	removed   map[transport.Address]bool
}

// A Machine is the membership of a process, by gossip or by a table.
type Machine interface {
	Step(now time.Time, in membership.Input) membership.Output
	View() *membership.View
	Check() error
}

func newMachine(config membership.Config) (Machine, error) {
	if config.Table.Enabled {
		return table.New(config)
	}
	return membership.New(config)
}

// Place says where a process runs, and how wrong its clock is.
type Place struct {
	Server int // the index of its server
	// Drift is how much faster its clock runs than virtual time, in parts of a million.
	Drift int
	// Offset is the difference of its clock from virtual time.
	Offset time.Duration
}

// Add makes a process that is not started yet. It sets Config.Cluster to that of the world.
func (w *World) Add(config membership.Config, place Place) (*Node, error) {
	config.Cluster = w.config.Cluster
	machine, err := newMachine(config)
	if err != nil {
		return nil, err
	}
	n := &Node{
		ID: len(w.nodes), Address: config.Self, Config: config, machine: machine,
		clock: clock{place.Drift, place.Offset}, place: -1, brokenSince: -1, removed: make(map[transport.Address]bool),
		home: w.servers[place.Server], server: w.servers[place.Server], known: make([]bool, len(w.servers)),
	}
	w.nodes = append(w.nodes, n)
	w.byName[n.Address] = n
	w.trace.line(w.now, "add %v at %s, clock %+d ppm", n.Address, n.server.name, place.Drift)
	return n, nil
}

// Start connects the process and begins joining.
func (w *World) Start(n *Node) {
	defer w.catch()
	broker{w}.dial(n, n.home)
	n.started = true
	n.step(w, membership.Start{})
}

// StartFormed connects the process as a member of a cluster that was formed before: see
// [gossip.Preformed].
func (w *World) StartFormed(n *Node, state *gossip.State) {
	defer w.catch()
	broker{w}.dial(n, n.home)
	n.started = true
	n.machine.(*membership.Machine).Preform(n.clock.local(w.now), state)
	n.track.begin(state)
	broker{w}.startServing(n)
	n.step(w, membership.Tick{})
}

// StartTabled connects the process as a member of a formed cluster whose members agree by a table.
// The table must have been set by [World.SetTable].
func (w *World) StartTabled(n *Node) {
	defer w.catch()
	broker{w}.dial(n, n.home)
	n.started = true
	n.machine.(*table.Machine).Preform(n.clock.local(w.now), w.table)
	for _, m := range n.View().ByAddress {
		n.track.toggle(m.Address, 1)
	}
	n.track.published, n.track.converged = n.track.set, true
	n.step(w, membership.Tick{})
}

// Give passes an input of its user or operator to the process: Leave, ExitReady, DownNode or
// Shutdown.
func (w *World) Give(n *Node, in membership.Input) {
	defer w.catch()
	w.trace.line(w.now, "%v is told %T", n.Address, in)
	n.step(w, in)
}

// View returns the cluster as the process sees it.
func (n *Node) View() *membership.View { return n.machine.View() }

// Machine returns the node's machine. The caller must not step it.
func (n *Node) Machine() Machine { return n.machine }

func (n *Node) gossip() *gossip.State {
	if m, ok := n.machine.(*membership.Machine); ok {
		return m.State()
	}
	return nil
}

func (n *Node) table() *rows.Table {
	if m, ok := n.machine.(*table.Machine); ok {
		return m.Table()
	}
	return nil
}

// Ended reports whether the process was killed or its machine has ended.
func (n *Node) Ended() bool { return n.ended }

func (n *Node) Frozen() bool { return n.frozen }

// Server returns the server to which the process is connected, or was connected last.
func (n *Node) Server() *Server { return n.server }

func (n *Node) Connected() bool { return n.connected }

// Impaired reports whether the process stands still or has ended, or whether one direction of its
// connection loses everything.
func (n *Node) Impaired() bool { return n.frozen || n.ended || n.lossIn >= 1 || n.lossOut >= 1 }

// IsMember reports whether the process runs and is a member.
func (n *Node) IsMember() bool {
	s := n.machine.View().SelfStatus
	return !n.ended && s != membership.NoStatus && s != membership.Removed
}

// Last returns the event with which the machine ended, or nil if the machine has not ended.
func (n *Node) Last() membership.Event { return n.last }

func (n *Node) step(w *World, in membership.Input) {
	if n.ended || w.err != nil {
		return
	}
	if n.frozen {
		if _, tick := in.(membership.Tick); !tick {
			n.waiting = append(n.waiting, in)
		}
		return
	}
	w.steps++
	w.trace.step(w.now, n, in)
	out := n.machine.Step(n.clock.local(w.now), in)
	if out.WakeAt.IsZero() {
		w.wakes.set(n, -1)
	} else {
		w.wakes.set(n, n.clock.virtual(out.WakeAt, w.now))
	}
	n.lease = out.Lease
	for i := range out.Send { // messages go before the events, because an event may end the process
		network{w}.send(n, &out.Send[i])
	}
	for _, e := range out.Events {
		w.trace.event(w.now, n, e)
		n.follow(w, e)
	}
	if out.Unclaim {
		n.claims = 0
		broker{w}.stopServing(n)
	}
	if out.Claim != 0 {
		broker{w}.claim(n, out.Claim)
	}
	if out.Probe && n.connected {
		broker{w}.probe(n)
	}
	if out.Founding != nil {
		foundingStore{w}.ask(n, *out.Founding)
	}
	if out.TakeLease != nil {
		leaseStore{w}.takeLease(n, *out.TakeLease)
	}
	for _, q := range out.Ask {
		broker{w}.ask(n, q)
	}
	tableStore{w}.carry(n, &out)
	if out.Move {
		w.After(0, func() { w.Move(n, w.servers[(n.server.index+1)%len(w.servers)]) })
	}
	checker{w}.check(n, &out)
	if w.OnChange != nil && (out.Changed || len(out.Events) > 0) {
		w.OnChange(n, out.Events)
	}
	if len(out.Events) == 0 {
		return
	}
	n.track.publish()
	if w.OnEvents != nil {
		w.OnEvents(n, out.Events)
	}
	if n.ended && w.OnEnd != nil {
		w.OnEnd(n, n.last)
	}
}

func (n *Node) follow(w *World, e membership.Event) {
	n.track.follow(e)
	switch e := e.(type) {
	case membership.MemberUp:
		if e.Member.Address == n.Address {
			broker{w}.startServing(n)
		}
	case membership.MemberLeaving:
		if e.Member.Address == n.Address {
			broker{w}.stopServing(n)
		}
	case membership.JoinFailed, membership.SelfDowned, membership.SelfRemoved:
		n.last = e
		n.end(w)
		n.closedAt = max(n.closedAt, n.lastUp) // a process that ends by itself waits until the server has its last messages
	}
}

func (n *Node) end(w *World) {
	if n.ended {
		return
	}
	n.ended = true
	w.wakes.set(n, -1)
	broker{w}.hangUp(n)
	n.connected = false
	n.waiting, n.sent = nil, nil
}

// Set returns a hash and the number of the members in the node's last view, without Down members.
func (n *Node) Set() (hash uint64, size int) { return n.track.published, n.track.size }

// Converged reports whether the node's last view has converged.
func (n *Node) Converged() bool { return n.IsMember() && n.track.converged }

// Traffic returns the node's traffic since ResetTraffic.
func (n *Node) Traffic() Traffic { return n.traffic }

// clock is a node's clock, a little fast or slow, with a random beginning. Cores see only this
// clock. A slow one jumps back by ppm nanoseconds at each millisecond; cores must tolerate that.
type clock struct {
	ppm    int
	offset time.Duration
}

var epoch = time.Unix(1_000_000_000, 0)

func (c clock) local(t time.Duration) time.Time {
	return epoch.Add(c.offset + t + t/1_000_000*time.Duration(c.ppm))
}

// virtual returns the virtual time, not before now, at which the clock shows the time at, or at
// most a few microseconds more.
func (c clock) virtual(at time.Time, now time.Duration) time.Duration {
	d := at.Sub(epoch) - c.offset
	t := max(now, d-d/1_000_000*time.Duration(c.ppm))
	for {
		missing := at.Sub(c.local(t))
		if missing <= 0 {
			break
		}
		t += max(missing-missing/1_000_000*time.Duration(max(c.ppm, 0))-missing/100, 1) // not past it
	}
	return t
}
