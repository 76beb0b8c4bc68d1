package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Config has a world's settings. Zero values mean the defaults.
type Config struct {
	// Seed determines all random choices.
	Seed uint64
	// Cluster is the name of the cluster. Default "sim".
	Cluster string
	// Servers is the number of servers in the broker's cluster. Default 1.
	Servers int
	// Latency is the time a message takes from a node to its server, or back.
	// Default 500µs.
	Latency time.Duration
	// Jitter is the longest random time that is added on the way to the server. Messages of a
	// connection still keep their order. Default 0.
	Jitter time.Duration
	// Between is a message's additional time between two servers.
	// Default 500µs.
	Between time.Duration
	// Spread is the time until a server knows that a node at another server listens, or has stopped
	// listening. Default 2ms.
	Spread time.Duration
	// Redial is the time between two attempts to connect. Default 100ms.
	Redial time.Duration
	// RouteTimeout is the time after which a cut between two servers ends their connection. Each
	// server then forgets the other's nodes. Default 5s.
	RouteTimeout time.Duration
	// HostTimeout is the time after which a server notices that a host has vanished or a process
	// stands still. Default 4 minutes.
	HostTimeout time.Duration
	// PingTimeout is the time after which a node notices that one direction of its connection is
	// dead. It then dials another server. Default 0: never.
	PingTimeout time.Duration
	// Failover lets nodes dial the other servers when their own does not answer.
	Failover bool
	// Repeat is the probability that a new connection repeats the last messages of the old one.
	// Default 0.
	Repeat float64
	// StoreTrouble is the probability that the store does not answer a request for the lease that
	// decides splits. Default 0.
	StoreTrouble float64
	// TableTrouble is the probability that the table does not answer a request, or that its answer
	// is lost. Such a request may still be carried out within TableLate. Default 0.
	TableTrouble float64
	TableLate    time.Duration
	// TableTime is the longest time that the table takes for a request. Default 5ms.
	TableTime time.Duration
	// TableGaps skips versions of the table, and makes some reads return an earlier version.
	TableGaps bool
	// Recode encodes and decodes every message.
	Recode bool
	// Account measures payloads: see [Node.Traffic].
	Account bool
	// Unchecked omits the invariants that examine whole states, for speed.
	Unchecked bool
	// Trace gets every line of the trace. Default nil: only the hash of the trace is kept.
	Trace func(line string)
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, initial time.Duration) {
		if *d == 0 {
			*d = initial
		}
	}
	set(&c.Latency, 500*time.Microsecond)
	set(&c.Between, 500*time.Microsecond)
	set(&c.Spread, 2*time.Millisecond)
	set(&c.Redial, 100*time.Millisecond)
	set(&c.RouteTimeout, 5*time.Second)
	set(&c.HostTimeout, 4*time.Minute)
	set(&c.TableTime, 5*time.Millisecond)
	if c.Cluster == "" {
		c.Cluster = "sim"
	}
	if c.Servers == 0 {
		c.Servers = 1
	}
	return c
}

// A World simulates a broker and the processes connected to it, in virtual time. It has no
// goroutine and reads no clock: the Config and the calls of the World's methods determine
// everything. It is not safe for concurrent use.
type World struct {
	config  Config
	random  *rand.Rand
	now     time.Duration
	queue   queue
	wakes   wakes
	nodes   []*Node
	byName  map[transport.Address]*Node
	servers []*Server
	ways    [][]way // from, to
	loss    float64 // the probability for every message on its way to a node
	trace   trace
	judge   judge
	sizes   sizes
	leases  map[transport.Address]holding // by founder
	// founding is the store's record of who founded the cluster; there is one if revision is above 0.
	founding membership.Founding
	revision uint64
	// table is the membership table. olds are its latest versions.
	table      *rows.Table
	olds       []*rows.Table
	TableStats TableStats
	steps      uint64
	err        error
	known      *rows.Table // the latest version that a member knows, in an unchecked run
	tableDown  bool
	// recoded is the last state that was encoded, and the result of decoding.
	recoded struct{ from, to *gossip.State }

	// OnChange, if set, is called after a step that changed the node's view or had events, before
	// OnEvents.
	OnChange func(n *Node, events []membership.Event)
	// OnEvents, if set, is called after a step with the step's events.
	OnEvents func(n *Node, events []membership.Event)
	// OnEnd, if set, is called when a machine has ended, with its last event.
	OnEnd func(n *Node, last membership.Event)
}

// New makes a world without nodes, whose servers all run and are connected.
func New(config Config) *World {
	config = config.withDefaults()
	w := &World{
		config: config,
		random: rand.New(rand.NewPCG(config.Seed, 0x9e3779b97f4a7c15)),
		byName: make(map[transport.Address]*Node),
		trace:  newTrace(config.Trace),
		judge:  newJudge(),
		sizes:  newSizes(config.Cluster),
		leases: make(map[transport.Address]holding),
		table:  &rows.Table{},
	}
	for i := range config.Servers {
		w.servers = append(w.servers, &Server{index: i, name: fmt.Sprintf("s%d", i+1), instance: 1, up: true})
	}
	for i := range w.servers {
		w.ways = append(w.ways, make([]way, len(w.servers)))
		for j := range w.servers {
			w.ways[i][j].route = true
		}
	}
	for _, s := range w.servers {
		s.named()
	}
	return w
}

// Now returns the virtual time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// Random returns the world's random source. Taking a number from it changes the rest of the run.
func (w *World) Random() *rand.Rand { return w.random }

// Nodes returns all processes, ended ones too, in the order in which they were added.
func (w *World) Nodes() []*Node { return w.nodes }

func (w *World) Servers() []*Server { return w.servers }

// Steps returns how many inputs the machines have taken.
func (w *World) Steps() uint64 { return w.steps }

// Hash returns the hash of everything that has happened so far.
func (w *World) Hash() uint64 { return w.trace.sum }

// Err returns the first broken invariant, or nil. A world with a broken invariant does not go on.
func (w *World) Err() error { return w.err }

// At calls do at the given time, or now if that has passed.
func (w *World) At(at time.Duration, do func()) { w.queue.put(max(at, w.now), eventCall).call = do }

func (w *World) After(d time.Duration, do func()) { w.At(w.now+d, do) }

// Next returns when the next event or tick is due; ok is false if there is none.
func (w *World) Next() (at time.Duration, ok bool) {
	at, ok = w.queue.next()
	if n := w.wakes.next(); n != nil && (!ok || n.wake < at) {
		return max(n.wake, w.now), true
	}
	return at, ok
}

func (w *World) Run(d time.Duration) { w.RunUntil(d, 0, nil) }

// maxStill bounds the events and ticks at one time. More mean that a machine asks to be woken in
// the past.
const maxStill = 1_000_000

// RunUntil runs the world for d, or until stop returns true. It calls stop at intervals of length
// every, and returns the last result. It also ends at a broken invariant.
func (w *World) RunUntil(d, every time.Duration, stop func() bool) (stopped bool) {
	end, ask := w.now+d, w.now
	defer w.catch()
	still := 0
	for w.err == nil {
		if stop != nil && w.now >= ask {
			if stop() {
				return true
			}
			ask = w.now + every
		}
		at, ok := w.queue.next()
		n := w.wakes.next()
		until := end
		if stop != nil {
			until = min(end, ask)
		}
		switch {
		case ok && at < until && (n == nil || at <= n.wake):
			if still++; at > w.now {
				w.now, still = at, 0
			}
			_, e := w.queue.take()
			w.happen(&e)
		case n != nil && n.wake < until:
			if still++; n.wake > w.now {
				w.now, still = n.wake, 0
			}
			w.wakes.set(n, -1)
			n.step(w, membership.Tick{})
		case until < end:
			w.now = until
		default:
			w.now = end
			return stop != nil && stop()
		}
		if still > maxStill {
			w.fail(fmt.Errorf("more than a million events at %v: a machine asks to be woken in the past", w.now))
		}
	}
	return false
}

func (w *World) catch() {
	switch p := recover().(type) {
	case nil:
	case *invariant.Violation:
		w.fail(p)
	default:
		panic(p)
	}
}

func (w *World) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("at %.6fs: %w", w.now.Seconds(), err)
		w.trace.line(w.now, "FAILED: %v", err)
	}
}

func (w *World) happen(e *event) {
	switch e.kind {
	case eventCall:
		e.call()
	case eventUnicast:
		network{w}.arrive(e)
	case eventFan:
		network{w}.fan(e)
	case eventInput:
		if e.to.connected && e.to.conn == e.receiver {
			e.to.step(w, e.in)
		}
	case eventSync:
		broker{w}.sync(e.to, e.server)
	case eventRedial:
		broker{w}.redial(e.to)
	}
}

// Lease reports whether turns may start at the node now.
func (w *World) Lease(n *Node) bool {
	return n.started && !n.ended && (n.lease.IsZero() || n.lease.After(n.clock.local(w.now)))
}

// Running returns the processes that have started and not ended, including frozen ones.
func (w *World) Running() []*Node {
	var nodes []*Node
	for _, n := range w.nodes {
		if n.started && !n.ended {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// ResetTraffic resets the traffic of all nodes.
func (w *World) ResetTraffic() {
	for _, n := range w.nodes {
		n.traffic = Traffic{}
	}
}

// Kill ends a process at once. Its connection closes, so its server learns of the end.
func (w *World) Kill(n *Node) {
	w.trace.line(w.now, "kill %v", n.Address)
	n.end(w)
}

// KillHost ends a process and its host. The connection is not closed, so for HostTimeout the server
// still takes the node for a listener.
func (w *World) KillHost(n *Node) {
	w.trace.line(w.now, "the host of %v vanishes", n.Address)
	if n.ended {
		return
	}
	n.ended, n.connected = true, false
	w.wakes.set(n, -1)
	n.waiting, n.sent = nil, nil
	conn := n.conn
	w.After(w.config.HostTimeout, func() {
		if n.conn == conn {
			broker{w}.hangUp(n)
		}
	})
}

// Freeze makes a process stand still, as SIGSTOP does. Messages to the process wait. Its connection
// stays open at first; if the process is still frozen after HostTimeout, its server closes the
// connection.
func (w *World) Freeze(n *Node) {
	if n.frozen || n.ended {
		return
	}
	w.trace.line(w.now, "freeze %v", n.Address)
	n.frozen = true
	w.wakes.set(n, -1)
	conn := n.conn
	w.After(w.config.HostTimeout, func() {
		if n.conn == conn && n.frozen {
			broker{w}.hangUp(n)
		}
	})
}

// Disconnect ends the connection of a process. The process then connects again.
func (w *World) Disconnect(n *Node) {
	w.trace.line(w.now, "the connection of %v breaks", n.Address)
	if !n.frozen {
		broker{w}.disconnect(n)
	}
}

// Move makes a process connect to another server, although its own server runs.
func (w *World) Move(n *Node, to *Server) {
	n.home = to
	w.Disconnect(n)
}

// Thaw makes a frozen process go on. It is random whether its timer or the waiting messages come
// first.
func (w *World) Thaw(n *Node) {
	if !n.frozen || n.ended {
		return
	}
	defer w.catch()
	w.trace.line(w.now, "thaw %v", n.Address)
	n.frozen = false
	waiting := n.waiting
	n.waiting = nil
	late := w.random.IntN(2) == 0 && len(waiting) > 0
	if !late {
		n.step(w, membership.Tick{})
	}
	for _, in := range waiting {
		n.step(w, in)
	}
	if late {
		n.step(w, membership.Tick{})
	}
	if n.connected && !n.registered {
		broker{w}.disconnect(n)
	}
}

// Lose makes the node lose a share of the messages to it (in) and from it (out). With a share of 1
// that direction is dead.
func (w *World) Lose(n *Node, in, out float64) {
	w.trace.line(w.now, "%v loses %v in, %v out", n.Address, in, out)
	n.lossIn, n.lossOut = in, out
	switch dead := in >= 1 || out >= 1; {
	case dead && n.brokenSince < 0:
		n.brokenSince = w.now
		if w.config.PingTimeout > 0 {
			w.After(w.config.PingTimeout, func() {
				if n.brokenSince >= 0 && w.now-n.brokenSince >= w.config.PingTimeout && !n.frozen {
					broker{w}.disconnect(n)
				}
			})
		}
	case !dead:
		n.brokenSince = -1
	}
}

// LoseAll makes each message get lost with this probability, independently for each receiver.
func (w *World) LoseAll(share float64) {
	w.trace.line(w.now, "all lose %v", share)
	w.loss = share
}

// Cut drops all messages from one server to the other, in this direction only. If the cut lasts for
// RouteTimeout, the servers close their connection, which ends messages in both directions.
func (w *World) Cut(from, to *Server) {
	way := &w.ways[from.index][to.index]
	if way.hole || from == to {
		return
	}
	w.trace.line(w.now, "what %s sends to %s vanishes", from.name, to.name)
	way.hole, way.since = true, w.now
	w.After(w.config.RouteTimeout, func() {
		if way.hole && w.now-way.since >= w.config.RouteTimeout {
			broker{w}.closeRoute(from, to)
		}
	})
}

// Part closes the connection between two servers at once, and prevents a new one until Mend.
func (w *World) Part(a, b *Server) {
	if a == b {
		return
	}
	w.Cut(a, b)
	w.Cut(b, a)
	broker{w}.closeRoute(a, b)
}

// Mend ends cuts between two servers and connects them again.
func (w *World) Mend(a, b *Server) {
	if a == b {
		return
	}
	w.trace.line(w.now, "mend %s and %s", a.name, b.name)
	w.ways[a.index][b.index].hole, w.ways[b.index][a.index].hole = false, false
	if w.ways[a.index][b.index].route {
		broker{w}.openRoute(a, b)
		return
	}
	w.After(w.config.Redial, func() { broker{w}.openRoute(a, b) })
}

// Whole reports whether all servers reach each other.
func (w *World) Whole() bool {
	for i, a := range w.servers {
		for j, b := range w.servers {
			if i != j && (!network{w}.passes(a, b) || w.ways[i][j].hole) {
				return false
			}
		}
	}
	return true
}

// StopServer stops a server and closes its connections.
func (w *World) StopServer(s *Server) {
	if !s.up {
		return
	}
	defer w.catch()
	w.trace.line(w.now, "%s stops", s.id)
	s.up = false
	for _, o := range w.servers {
		if o != s {
			broker{w}.closeRoute(s, o)
		}
	}
	for _, n := range w.nodes {
		if n.server != s || !n.registered {
			continue
		}
		if n.ended || n.frozen {
			broker{w}.hangUp(n) // the node notices later that its server is gone
			continue
		}
		broker{w}.disconnect(n)
	}
}

// Stall makes a server stand still for d, as SIGSTOP does. It handles no messages and accepts no
// connections; waiting messages are handled when it goes on.
func (w *World) Stall(s *Server, d time.Duration) {
	w.trace.line(w.now, "%s stands still for %v", s.id, d)
	s.still = max(s.still, w.now+d)
}

// StartServer starts a stopped server as a new instance.
func (w *World) StartServer(s *Server) {
	if s.up {
		return
	}
	s.up = true
	s.instance++
	s.named()
	w.trace.line(w.now, "%s starts", s.id)
	for _, o := range w.servers {
		if o != s {
			w.After(w.config.Redial, func() { broker{w}.openRoute(s, o) })
		}
	}
}
