package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Config are a world's settings. Zero values mean the defaults.
type Config struct {
	// Seed decides everything that is left to chance.
	Seed uint64
	// Cluster is the name of the cluster. Default "sim".
	Cluster string
	// Servers is how many servers the broker's cluster has. Default 1.
	Servers int
	// Latency is the time a message takes from a node to its server, or back.
	// Default 500µs.
	Latency time.Duration
	// Jitter is the most that is added, at random, on the way to the server. A
	// connection keeps its order all the same. Default 0.
	Jitter time.Duration
	// Between is the additional time from one server to another.
	// Default 500µs.
	Between time.Duration
	// Spread is how long it takes until a server knows that a node listens, or
	// does no longer, at another one. Default 2ms.
	Spread time.Duration
	// Redial is the time between two attempts to connect. Default 100ms.
	Redial time.Duration
	// RouteTimeout is after how long a broken way between two servers ends their
	// connection, and with it what one knows of the other's nodes. Default 5s.
	RouteTimeout time.Duration
	// HostTimeout is after how long a server notices that a host has vanished or a
	// process stands still. Default 4 minutes.
	HostTimeout time.Duration
	// PingTimeout is after how long a node notices that its connection is dead in
	// either direction and dials another server. Default 0: never.
	PingTimeout time.Duration
	// Failover lets nodes dial the other servers when their own does not answer.
	Failover bool
	// Repeat is the chance that a connection, when it is made anew, repeats the
	// last messages that were sent through the old one. Default 0.
	Repeat float64
	// StoreTrouble is the chance that the store does not answer a request for the
	// lease that decides splits. Default 0.
	StoreTrouble float64
	// Recode sends every message through its bytes.
	Recode bool
	// Account measures payloads: see [Node.Traffic].
	Account bool
	// Unchecked leaves out the invariants that look at whole states, for speed.
	Unchecked bool
	// Trace is told every line of the trace. Default nil: only its hash is kept.
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
	if c.Cluster == "" {
		c.Cluster = "sim"
	}
	if c.Servers == 0 {
		c.Servers = 1
	}
	return c
}

// A World is a broker and the processes that are connected to it, in virtual
// time. It is not safe for concurrent use, has no goroutine and reads no clock:
// its behaviour follows from its Config and from the calls made to it.
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
	loss    float64 // of every message on its way to a node
	trace   trace
	judge   judge
	sizes   sizes
	leases  map[transport.Address]holding // by founder
	steps   uint64
	err     error
	// recoded is the last state that went through its bytes, before and after.
	recoded struct{ from, to *gossip.State }

	// OnChange, if set, is told of a step that changed the node's view, before OnEvents.
	OnChange func(n *Node, events []membership.Event)
	// OnEvents, if set, is told the events of a step after it.
	OnEvents func(n *Node, events []membership.Event)
	// OnEnd, if set, is told when a machine has ended, with its last event.
	OnEnd func(n *Node, last membership.Event)
}

// New makes a world without nodes, whose servers run and see each other.
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

// Now is the virtual time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// Random is the world's own source. Who takes from it changes what follows.
func (w *World) Random() *rand.Rand { return w.random }

// Nodes are all processes that ever were, in the order in which they were added.
func (w *World) Nodes() []*Node { return w.nodes }

// Servers are the broker's servers.
func (w *World) Servers() []*Server { return w.servers }

// Steps is how many inputs the machines have taken.
func (w *World) Steps() uint64 { return w.steps }

// Hash is the hash of everything that has happened so far.
func (w *World) Hash() uint64 { return w.trace.sum }

// Err is the first invariant that was broken, or nil. Nothing happens after it.
func (w *World) Err() error { return w.err }

// At calls do when the time has come.
func (w *World) At(at time.Duration, do func()) { w.queue.put(max(at, w.now), eventCall).call = do }

// After calls do when so much time has passed.
func (w *World) After(d time.Duration, do func()) { w.At(w.now+d, do) }

// Next is when something happens next by itself. It reports false if nothing does.
func (w *World) Next() (at time.Duration, ok bool) {
	at, ok = w.queue.next()
	if n := w.wakes.next(); n != nil && (!ok || n.wake < at) {
		return max(n.wake, w.now), true
	}
	return at, ok
}

// Run lets time pass.
func (w *World) Run(d time.Duration) { w.RunUntil(d, 0, nil) }

// maxStill is how many things may happen without time passing: more is a machine
// that asks to be woken in the past.
const maxStill = 1_000_000

// RunUntil lets time pass until stop says so, which it asks at each multiple of
// every, or until d has passed. It reports whether stop said so. A broken
// invariant ends it.
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
			w.step(n, membership.Tick{})
		case until < end:
			w.now = until
		default:
			w.now = end
			return stop != nil && stop()
		}
		if still > maxStill {
			w.fail(fmt.Errorf("time stands still: a million things happened at %v", w.now))
		}
	}
	return false
}

// catch turns what a machine panics with about itself into the world's error.
func (w *World) catch() {
	switch p := recover().(type) {
	case nil:
	case *invariant.Violation:
		w.fail(p)
	default:
		panic(p)
	}
}

// fail keeps the first error.
func (w *World) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("at %.6fs: %w", w.now.Seconds(), err)
		w.trace.line(w.now, "FAILED: %v", err)
	}
}

// happen carries an event out.
func (w *World) happen(e *event) {
	switch e.kind {
	case eventCall:
		e.call()
	case eventUnicast:
		w.arrive(e)
	case eventFan:
		w.fan(e)
	case eventInput:
		if e.to.connected && e.to.conn == e.receiver {
			w.step(e.to, e.in)
		}
	case eventSync:
		w.sync(e.to, e.server)
	case eventRedial:
		w.redial(e.to)
	}
}
