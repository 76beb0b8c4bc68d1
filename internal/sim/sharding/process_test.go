package sharding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A process has links to other processes and a route to each shard. A host also has shards and a
// control plane.
type process struct {
	w         *world
	number    int // counts the beginnings of processes
	name      string
	self      transport.Peer
	host      bool
	alive     bool
	paused    bool
	backlog   []func() // events that came while the process stood still
	server    int      // the number of the broker's server to which it is connected
	cut       spell
	leaves    bool // the process was asked to leave in order
	written   bool // the oracle has marked its state as lost
	connected bool
	node      *sim.Node // of a host: its node in the membership
	ending    bool      // it has left in order: no more turns begin, but answers may leave
	deaf      bool      // it handles no more envelopes
	control   *member   // of a host
	client    *client   // of a process that is no host
	life      int       // the number of its connection
	data      calls.Plane
	links     map[transport.Address]*link
	gone      map[transport.Address]bool
	left      map[transport.Address]bool // processes that left in order
	silent    []transport.Address        // the latest processes from which no more messages come
	routes    map[placement.ShardID]*route
	shards    map[placement.ShardID]*hosted
	pending   calls.Table
	asks      []*ask                    // the callers in pending
	near      map[string]*region.Entity // entities that were called at this process
	holding   int                       // calls that routes hold, by the routes' own count
	threads   []*thread
	table     *placement.Table
	late      bool // tables arrive late at this process
	dirty     []*link
}

func newProcess(w *world, name string, incarnation uint64, host bool) *process {
	if !host {
		incarnation = identity.Mark(identity.Client, incarnation)
	}
	p := &process{
		w: w, number: len(w.procs), name: name, host: host, alive: true, connected: true,
		self:  transport.Peer{Address: transport.Address{Name: name, Incarnation: incarnation}, Client: !host},
		links: map[transport.Address]*link{},
		gone:  map[transport.Address]bool{}, left: map[transport.Address]bool{},
		routes: map[placement.ShardID]*route{}, shards: map[placement.ShardID]*hosted{},
		near: map[string]*region.Entity{},
		late: w.one(3), server: w.r.IntN(w.plan.servers()),
	}
	p.data.Init((*dataEnv)(p))
	p.pending.Init(func() calls.Caller {
		c := &ask{process: p}
		p.asks = append(p.asks, c)
		return c
	})
	for _, id := range w.ids {
		p.routes[id] = newRoute(p, id)
		if host {
			p.shards[id] = newHosted(p, id)
		}
	}
	if host {
		p.control = newMember(p)
	} else {
		p.client = newClient(p)
	}
	return p
}

// after calls do after d, unless the process has ended.
func (p *process) after(d time.Duration, do func()) { p.w.schedule(d, p, do) }

// leased reports whether a turn may begin at the process.
func (p *process) leased() bool { return p.alive && !p.ending && p.w.members.leased(p) }

// mayAnswer reports whether answers of turns, and calls made by turns, may leave the process.
func (p *process) mayAnswer() bool { return !p.host || p.ending || p.leased() }

// healthy reports whether the process is a working member.
func (p *process) healthy() bool {
	return p.alive && p.host && !p.paused && p.control.status() == membership.Up && p.leased()
}

// held returns how many calls wait for a home.
func (p *process) held() (n int) {
	for _, r := range p.routes {
		n += r.Core.Held()
	}
	return n
}

// busy reports whether calls of the process itself are under way, or its tells wait.
func (p *process) busy() bool { return p.calling() || p.held() > 0 }

// calling reports whether a caller of the process waits for an answer.
func (p *process) calling() bool {
	return p.pending.Coalescer.UnderWay() > 0 || slices.ContainsFunc(p.threads, func(t *thread) bool { return t.busy })
}

// waitsFor describes why busy returns true.
func (p *process) waitsFor() string {
	var out []string
	for _, c := range p.asks {
		if c.place == nil {
			continue
		}
		if to, seq := c.place.SentOn(); to != nil {
			out = append(out, fmt.Sprintf("%d sent to %s as %d", c.id, to.Peer().Name, seq))
		} else {
			out = append(out, fmt.Sprintf("%d held", c.id))
		}
	}
	for id, r := range p.routes {
		if n := r.Core.Held(); n > 0 {
			out = append(out, fmt.Sprintf("%v holds %d, is %v to %s at %v", id, n, r.Core.State, r.Core.Home.Name, r.Core.Epoch))
		}
	}
	for _, t := range p.threads {
		if t.busy {
			out = append(out, t.name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// end ends a process at once. A process that is to come back begins again after a while.
func (p *process) end() {
	w := p.w
	if !p.alive {
		return
	}
	p.stop()
	if w.plan.restarts && w.faulty && p.host && !w.one(4) {
		w.after(w.between(20*time.Millisecond, 2*time.Second), func() { w.begin(p.name, true) })
	}
}

func (p *process) stop() {
	w := p.w
	if !p.alive {
		return
	}
	w.log("%s#%d ends", p.name, p.self.Incarnation)
	p.alive = false
	if p.host {
		w.members.Kill(p.node)
	}
	w.oracle.writeOff(p)
}

func (p *process) sortedLinks() []*link {
	var out []*link
	for _, l := range p.links {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *link) int { return cmp.Compare(a.Peer().Name, b.Peer().Name) })
	return out
}

func (p *process) silenced(a transport.Address) bool {
	l := p.links[a]
	return p.gone[a] || l != nil && l.HasDeparted()
}

func (p *process) publish() {
	dirty := p.dirty
	p.dirty = nil
	for _, l := range dirty {
		l.Stream.Flush()
	}
}

func (p *process) breakConnection(d time.Duration) {
	if !p.connected || !p.alive {
		return
	}
	p.w.log("%s loses its connection for %v", p.name, d)
	p.connected = false
	p.life++
	p.after(d, func() {
		p.connected = true
		for _, l := range p.sortedLinks() {
			l.Rewind()
		}
	})
}

func (p *process) arrive(payload []byte) {
	if !p.alive || !p.connected {
		return
	}
	var fr wire.FrameReader
	h, rest, err := fr.Header(payload)
	if err != nil {
		p.w.fail("%v", err)
		return
	}
	l := p.link(h.From.Address)
	if l == nil || l.HasDeparted() {
		return
	}
	skip, dropped, ok := l.Receive(&h, p.w.now)
	if dropped {
		l = p.data.Replace(l).(*link)
		skip, _, ok = l.Receive(&h, p.w.now)
	}
	if !ok {
		return
	}
	for seq := h.Seq; seq < h.Seq+uint64(h.Count) && p.alive; seq++ {
		var e wire.Envelope
		if rest, ok, err = wire.NextEnvelope(rest, &e); err != nil || !ok {
			p.w.fail("%v %v", ok, err)
			return
		}
		if skip > 0 {
			skip--
			continue
		}
		if p.deaf && e.Type != wire.TypeAnswer && e.Type != wire.TypeRefusal {
			continue
		}
		if l.Peer().Client && !e.MayComeFrom(identity.Of(l.Peer().Incarnation), (*dataEnv)(p)) {
			p.forbid(l, &e)
			l.Handled.Store(seq)
			continue
		}
		switch k := keep(&e); e.Type {
		case wire.TypeCall, wire.TypeTell:
			p.deliver(l, &k, seq)
		case wire.TypeAnswer:
			p.data.Answer(&k)
		default:
			p.data.Receive(l, theLane, &k)
		}
		if !p.deaf {
			l.Handled.Store(seq)
		}
	}
	p.received(l, &h, len(payload))
}

// forbid handles an envelope that a client must not send: it fails the run. It only ignores a Flush
// for a home that this process does not know yet.
func (p *process) forbid(l *link, e *wire.Envelope) {
	if e.Type != wire.TypeFlush || (*dataEnv)(p).Knows(e.Node.Address) {
		p.w.fail("%s: %s", p.name, wire.MissingRight(l.Peer(), e))
	}
	p.w.log("%s: a Flush of %s for %s is refused", p.name, l.Peer().Name, e.Node.Name)
}

func (p *process) received(l *link, h *wire.FrameHeader, size int) {
	if l.Received(h, size) {
		l.later()
	}
	if h.Flags&wire.FlagBye != 0 {
		p.data.PeerGone(l.Peer().Address, theLane, true)
	}
}

// depart ends a process in order. It begins no more turns, ends its data plane, and sends goodbyes.
func (p *process) depart() {
	p.ending = true
	p.data.Leave(calls.ByeGrace-500*time.Millisecond, func() {
		p.publish()
		p.w.log("%s says goodbye", p.name)
		for _, l := range p.sortedLinks() {
			l.Goodbye()
		}
		p.end()
	})
}

func (p *process) takeTable(t *placement.Table) {
	old := p.table
	p.table = t
	for _, kind := range p.w.kinds() {
		p.data.Follow(old, t, kind)
	}
	for _, id := range p.w.ids[p.w.plan.shards:] {
		p.stranded(id)
	}
}
