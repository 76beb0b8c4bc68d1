package membership

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A network drives machines over a simulated broker in virtual time. Delivery takes a millisecond
// and keeps order. After every step it checks each machine's invariants, and that no node runs
// turns that another node has fenced.
type network struct {
	t       testing.TB
	now     time.Time
	origin  time.Time
	seq     int
	queue   deliveries
	nodes   map[string]*simNode
	order   []string
	servers map[string]*simServer
	cuts    map[[2]string]bool
	log     strings.Builder
	lossy   func(from, to *simNode) bool // nil means that nothing is lost
	sent    int
	plain   bool // messages are delivered without encoding
	leases  map[transport.Address]simLease
	founded core.Founding // the store's record, if revision is above 0

	revision uint64
	unsafe   bool           // the downing strategy does not guarantee that turns end
	watch    func(*simNode) // called after each step; may be nil
}

// A simLease is the store's lease of one cluster, which its founder identifies.
type simLease struct {
	holder transport.Address
	token  uint64
	until  time.Time
}

// A simServer is one broker of the broker's cluster.
type simServer struct {
	name     string
	instance int
	down     bool
}

func (s *simServer) String() string { return fmt.Sprintf("%s/%d", s.name, s.instance) }

// A simNode is one process.
type simNode struct {
	config    core.Config
	machine   *Machine
	server    *simServer
	connected bool
	dead      bool
	frozen    bool         // the process stands still; its connection lives
	deaf      bool         // messages to it are lost
	mute      bool         // its messages are lost
	storeless bool         // it cannot reach the store
	claims    bool         // the broker directs probes to it
	waiting   []core.Input // inputs that arrived while it was frozen
	frozenAt  time.Time
	wake      time.Time
	events    []core.Event
	quiet     bool // its events are not logged
}

func (n *simNode) name() string { return n.config.Self.Name }

// A delivery is an input under way to a node.
type delivery struct {
	at     time.Time
	seq    int
	to     *simNode
	in     core.Input
	server string // only this broker instance delivers it
}

type deliveries []delivery

func (d deliveries) Len() int { return len(d) }
func (d deliveries) Less(i, j int) bool {
	return cmp.Or(d[i].at.Compare(d[j].at), cmp.Compare(d[i].seq, d[j].seq)) < 0
}
func (d deliveries) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)   { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

const latency = time.Millisecond

func newNetwork(t testing.TB) *network {
	origin := time.Unix(1000, 0)
	return &network{
		t: t, now: origin, origin: origin,
		nodes: map[string]*simNode{}, servers: map[string]*simServer{}, cuts: map[[2]string]bool{},
	}
}

func (w *network) server(name string) *simServer {
	if w.servers[name] == nil {
		w.servers[name] = &simServer{name: name, instance: 1}
	}
	return w.servers[name]
}

// add makes a node. key identifies it in the network, because two nodes may have the same name.
func (w *network) add(key, server string, config core.Config) *simNode {
	w.t.Helper()
	machine, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &simNode{config: config, machine: machine, server: w.server(server)}
	w.nodes[key] = n
	if !slices.Contains(w.order, key) {
		w.order = append(w.order, key)
		slices.Sort(w.order)
	}
	return n
}

func (w *network) start(n *simNode) {
	w.connect(n)
	w.step(n, core.Start{})
}

func (w *network) connect(n *simNode) {
	n.connected = !n.server.down
	w.step(n, core.ConnState{Connected: n.connected, Server: n.server.String()})
}

func (w *network) disconnect(n *simNode) {
	n.connected = false
	w.step(n, core.ConnState{})
}

// step passes an input to a node, or keeps the input while the process stands still.
func (w *network) step(n *simNode, in core.Input) {
	w.t.Helper()
	switch {
	case n.dead:
		return
	case n.frozen:
		if _, tick := in.(core.Tick); !tick {
			n.waiting = append(n.waiting, in)
		}
		return
	}
	out := n.machine.Step(w.now, in)
	n.wake = out.WakeAt
	for _, e := range out.Events {
		w.checkRemoval(n, e)
		n.events = append(n.events, e)
		if !n.quiet {
			fmt.Fprintf(&w.log, "%6.3fs %s: %v\n", w.now.Sub(w.origin).Seconds(), n.name(), e)
		}
	}
	if out.Unclaim {
		n.claims = false
	}
	if out.Claim != 0 {
		n.claims = true
		w.post(n, core.Claimed{Number: out.Claim})
	}
	for _, e := range out.Send {
		w.send(n, e)
	}
	if out.Founding != nil {
		w.post(n, w.founding(n, *out.Founding))
	}
	if out.Probe && n.connected && !w.served(n) {
		w.post(n, core.Vacant{})
	}
	if out.TakeLease != nil {
		w.post(n, w.takeLease(n, *out.TakeLease))
	}
	w.check(n)
	if w.watch != nil {
		w.watch(n)
	}
}

// checkRemoval checks that a member is removed only after it has left in order, or after n has seen
// it downed.
func (w *network) checkRemoval(n *simNode, e core.Event) {
	removed, ok := e.(core.MemberRemoved)
	if !ok || removed.Member.Status == gossip.Exiting {
		return
	}
	for _, before := range n.events {
		if d, ok := before.(core.MemberDowned); ok && d.Member.Address == removed.Member.Address {
			return
		}
	}
	w.t.Errorf("%s saw %v, and not before that it was downed", n.name(), removed)
}

// founding answers a request for the record of who founded the cluster, as the store does.
func (w *network) founding(n *simNode, r core.FoundingRequest) core.FoundingAnswer {
	a := core.FoundingAnswer{Number: r.Number}
	switch {
	case n.storeless:
		a.Reason = "store unavailable"
	case !r.Write:
		a.Founding, a.Revision = w.founded, w.revision
	case r.Over != w.revision:
		a.Conflict = true
	default:
		w.founded, w.revision = r.Founding, w.revision+1
		a.Revision = w.revision
	}
	return a
}

// takeLease answers a request for the lease, as the store does.
func (w *network) takeLease(n *simNode, r core.LeaseRequest) core.LeaseAnswer {
	if w.leases == nil {
		w.leases = make(map[transport.Address]simLease)
	}
	l := w.leases[r.Founder]
	switch {
	case n.storeless:
		return core.LeaseAnswer{Seq: r.Seq, Reason: "store unavailable"}
	case l.until.After(w.now) && l.holder != n.config.Self && l.token != r.Over:
		return core.LeaseAnswer{Seq: r.Seq, Held: true, Reason: "held by " + l.holder.Name}
	}
	l = simLease{n.config.Self, l.token + 1, w.now.Add(r.TTL)}
	w.leases[r.Founder] = l
	fmt.Fprintf(&w.log, "%6.3fs %s: takes the lease\n", w.now.Sub(w.origin).Seconds(), n.name())
	return core.LeaseAnswer{Seq: r.Seq, Token: l.token}
}

// served reports whether the broker knows an Up member, as seen from n.
func (w *network) served(n *simNode) bool {
	for _, key := range w.order {
		o := w.nodes[key]
		if !o.dead && o.connected && w.route(n, o) && (o.claims || o.machine.View().SelfStatus == gossip.Up) {
			return true
		}
	}
	return false
}

func (w *network) send(from *simNode, e core.Envelope) {
	w.sent++
	if !from.connected || from.mute {
		return
	}
	if e.Broadcast {
		for _, key := range w.order {
			w.deliver(from, w.nodes[key], e.Message)
		}
		return
	}
	for _, key := range w.order {
		to := w.nodes[key]
		if to.config.Self == e.To && !to.dead && to.connected && w.route(from, to) {
			w.deliver(from, to, e.Message)
			return
		}
	}
	w.post(from, core.Unreachable{Peer: e.To, Server: from.server.String()})
}

func (w *network) deliver(from, to *simNode, msg message.Message) {
	lost := w.lossy != nil && from != to && w.lossy(from, to)
	if to.dead || !to.connected || to.deaf || !w.route(from, to) || lost {
		return
	}
	w.post(to, core.Receive{From: from.config.Self, Message: w.recode(msg), Server: to.server.String()})
}

// recode encodes and decodes a message.
func (w *network) recode(msg message.Message) message.Message {
	w.t.Helper()
	if w.plain {
		return msg
	}
	b, err := message.Encode(msg)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := message.Decode(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *network) post(to *simNode, in core.Input) {
	w.seq++
	heap.Push(&w.queue, delivery{w.now.Add(latency), w.seq, to, in, to.server.String()})
}

func (w *network) route(from, to *simNode) bool {
	return !w.cuts[[2]string{from.server.name, to.server.name}]
}

// run lets time pass for d, or until stop returns true.
func (w *network) run(d time.Duration, stop func() bool) bool {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		if stop != nil && stop() {
			return true
		}
		var next *simNode
		at := end
		for _, key := range w.order {
			n := w.nodes[key]
			if !n.dead && !n.frozen && !n.wake.IsZero() && n.wake.Before(at) {
				next, at = n, n.wake
			}
		}
		if len(w.queue) > 0 && !w.queue[0].at.After(at) && w.queue[0].at.Before(end) {
			d := heap.Pop(&w.queue).(delivery)
			w.now = d.at
			if d.to.connected && d.to.server.String() == d.server {
				w.step(d.to, d.in)
			}
			continue
		}
		if next == nil {
			w.now = end
			return stop != nil && stop()
		}
		w.now = core.Later(w.now, at)
		w.step(next, core.Tick{})
		if !next.wake.After(w.now.Add(-time.Second)) && !next.wake.IsZero() {
			w.t.Fatalf("%v asks to be woken at %v, and it is %v", next.config.Self, next.wake, w.now)
		}
	}
}

func (w *network) freeze(n *simNode) {
	n.frozen, n.frozenAt = true, w.now
}

func (w *network) thaw(n *simNode) {
	n.frozen = false
	waiting := n.waiting
	n.waiting = nil
	w.step(n, core.Tick{}) // the machine must notice by itself that the tick is late
	for _, in := range waiting {
		w.step(n, in)
	}
}

// stopServer takes a broker down; all its connections end.
func (w *network) stopServer(s *simServer) {
	s.down = true
	for _, key := range w.order {
		if n := w.nodes[key]; n.server == s && n.connected {
			w.disconnect(n)
		}
	}
}

func (w *network) startServer(s *simServer) {
	s.down = false
	s.instance++
	for _, key := range w.order {
		if n := w.nodes[key]; n.server == s && !n.connected {
			w.connect(n)
		}
	}
}

// check fails the test if a machine's invariant does not hold, or if n could still start a turn
// although another node has fenced it.
func (w *network) check(n *simNode) {
	w.t.Helper()
	if err := n.machine.Check(); err != nil {
		w.t.Fatalf("%v: %v", n.config.Self, err)
	}
	g := n.machine.node.Gossip
	if g == nil || n.machine.node.Phase == core.Ended {
		return
	}
	if w.unsafe {
		return
	}
	for _, key := range w.order {
		o := w.nodes[key]
		r, _ := g.Member(o.config.Self)
		t, removed := g.Tombstone(o.config.Self)
		if o.dead || !r.Fenced && (!removed || t.Left) {
			continue
		}
		if other := o.machine.node.Gossip; other != nil && other.Founder != g.Founder {
			continue // the node's Welcome was lost, and it is in another cluster now
		}
		if lease := o.machine.Lease(); lease.IsZero() || lease.After(w.now) {
			w.t.Fatalf("at %v: %v is fenced by %v and its lease ends at %v", w.now.Sub(w.origin), o.config.Self, n.config.Self, lease.Sub(w.origin))
		}
	}
}

// converged reports whether these nodes, and no others, are Up in the converged view of each of
// them.
func (w *network) converged(nodes []*simNode) bool {
	for _, n := range nodes {
		v := n.machine.View()
		if !v.Converged || v.Count(gossip.Up) != len(nodes) || len(v.ByAge) != len(nodes) || v.Leader != nodes[0].machine.View().Leader {
			return false
		}
		for _, o := range nodes {
			if r, ok := v.Member(o.config.Self); !ok || r.Status != gossip.Up {
				return false
			}
		}
	}
	return true
}

func addr(name string, incarnation uint64) transport.Address {
	return transport.Address{Name: name, Incarnation: incarnation}
}
