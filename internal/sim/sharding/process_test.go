package sharding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A process has links to others, a route to each shard, and, if it hosts, the
// shards and a control plane.
type process struct {
	w         *world
	number    int // of its begin
	name      string
	self      transport.Peer
	host      bool
	alive     bool
	paused    bool
	backlog   []func() // what came while it was paused
	server    int      // of the broker, to which it is connected
	cut       spell
	written   bool // the oracle counts its state as lost
	connected bool
	node      *sim.Node // a host's, in the membership
	ending    bool      // it has left in order: no turn begins any more, answers may leave
	control   *member   // a host's
	client    *client   // another one's
	life      int       // of its connection
	links     map[transport.Address]*link
	gone      map[transport.Address]bool
	silent    []transport.Address // the latest from which nothing comes any more
	routes    map[placement.ShardID]*route
	shards    map[placement.ShardID]*hosted
	pending   pending.Table
	asks      []*ask                    // the places of pending
	near      map[string]*region.Entity // entities that were met at this process
	holding   int                       // calls that routes hold, as they count them
	threads   []*thread
	table     *placement.Table
	late      bool // gets tables late
	dirty     []*link
}

func newProcess(w *world, name string, incarnation uint64, host bool) *process {
	p := &process{
		w: w, number: len(w.procs), name: name, host: host, alive: true, connected: true,
		self:   transport.Peer{Address: transport.Address{Name: name, Incarnation: incarnation}, Client: !host},
		links:  map[transport.Address]*link{},
		gone:   map[transport.Address]bool{},
		routes: map[placement.ShardID]*route{}, shards: map[placement.ShardID]*hosted{},
		near: map[string]*region.Entity{},
		late: w.one(3), server: w.r.IntN(w.plan.servers()),
	}
	p.pending.Init(func() pending.Caller {
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

// after does something later, unless the process has ended.
func (p *process) after(d time.Duration, do func()) { p.w.schedule(d, p, do) }

// leased tells whether a turn may begin.
func (p *process) leased() bool { return p.alive && !p.ending && p.w.members.leased(p) }

// mayAnswer tells whether what has run may be answered, and calls leave behind it.
func (p *process) mayAnswer() bool { return !p.host || p.ending || p.leased() }

// healthy tells whether it is a member that works.
func (p *process) healthy() bool {
	return p.alive && p.host && !p.paused && p.control.status() == membership.Up && p.leased()
}

// held is how many calls wait for a home.
func (p *process) held() (n int) {
	for _, r := range p.routes {
		n += r.Core.Held()
	}
	return n
}

// busy tells whether calls of the process itself are under way.
func (p *process) busy() bool {
	return p.pending.Coalescer.UnderWay() > 0 || p.held() > 0 || slices.ContainsFunc(p.threads, func(t *thread) bool { return t.busy })
}

// waitsFor describes what busy goes by.
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
			out = append(out, fmt.Sprintf("%v holds %d, is %v to %s at %v", id, n, r.Core.State, r.Core.Owner.Name, r.Core.Epoch))
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

// end ends a process at once. One that is to come back begins anew after a while.
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

// stop ends a process for good.
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
	return p.gone[a] || l != nil && l.IsGone()
}

func (p *process) publish() {
	dirty := p.dirty
	p.dirty = nil
	for _, l := range dirty {
		l.Session.Flush()
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

// arrive handles a frame.
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
	if l == nil || l.IsGone() {
		return
	}
	skip, dropped, ok := l.Receive(&h, p.w.now)
	if dropped {
		l = p.replace(l)
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
		p.envelope(l, &e, seq)
		l.Handled.Store(seq)
	}
	p.received(l, &h, len(payload))
}

func (p *process) received(l *link, h *wire.FrameHeader, size int) {
	if l.Received(h, size) {
		l.later()
	}
	if h.Flags&wire.FlagBye != 0 {
		p.peerGone(l.Peer().Address, true, false)
	}
}

// envelope is what package shard's lanes do.
func (p *process) envelope(l *link, e *wire.Envelope, seq uint64) {
	id := placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}
	epoch := placement.Epoch(e.Epoch)
	s := p.shards[id]
	switch e.Type {
	case wire.TypeCall, wire.TypeTell:
		p.inbound(l, e, seq)
	case wire.TypeReply:
		p.reply(e)
	case wire.TypeRefusal:
		p.refusal(l, e)
	case wire.TypeFlush:
		l.AckSoon()
		s.Flush(flushOf(l.Peer(), p.self, epoch, placement.Epoch(e.Hop), e.Node.Address))
	case wire.TypeCancel:
		s.cancel(l.Peer().Address, string(e.Entity), e.ID)
	case 0: // a call that was taken back
	default:
		k := keep(e)
		if !s.step(l, &k) {
			p.w.fail("%s: envelope of type %d", p.name, e.Type)
		}
	}
}

func (p *process) refusal(l *link, e *wire.Envelope) {
	if e.Code != wire.CodeMoved {
		if e.ID == 0 {
			p.w.oracle.refusedTells++
		}
		p.pending.Complete(e.ID, pending.Result{Code: e.Code})
		return
	}
	env, ok := l.Find(e.Seq)
	if !ok {
		p.w.fail("%s: %s refused %d, which was given up", p.name, l.Peer().Name, e.Seq)
		return
	}
	r := p.routes[placement.ShardID{Kind: string(env.Kind), Shard: env.Shard}]
	p.w.log("%s: %s refuses %s, names %v at %v", p.name, l.Peer().Name, label(&env), e.Node.Address.Name, placement.Epoch(e.Epoch))
	r.Refused(l.Peer().Address, env, e.Node.Address, placement.Epoch(e.Epoch))
}

// peerGone ends dealings with a peer that said goodbye or was removed.
func (p *process) peerGone(a transport.Address, bye, removed bool) {
	l := p.links[a]
	if p.gone[a] {
		return
	}
	if removed {
		delete(p.links, a)
		p.gone[a] = true
	}
	p.silent = append(p.silent, a)
	is := func(o transport.Address) bool { return o == a }
	var left []call.Unacknowledged
	var stopped []*routing.Route
	if l != nil {
		left, stopped = l.Close(bye)
	}
	for _, id := range p.w.ids {
		if s := p.shards[id]; s != nil {
			s.Forget(is)
		}
	}
	if l != nil {
		routing.GiveBack(returner{l}, a, left, stopped)
	}
	for _, id := range p.w.ids {
		if s := p.shards[id]; s != nil {
			s.OpenBarriers(is)
		}
	}
	if !removed {
		return
	}
	for _, id := range p.w.ids {
		p.routes[id].OwnerGone(a, nil)
	}
	// Who said goodbye had answered or forwarded all that it had taken.
	p.pending.CompleteSent(func(s pending.Session) bool {
		return s.Peer().Address == a && !s.(*link).SaidGoodbye()
	}, pending.Result{Code: codeLost, Lost: a})
}

// returner sorts what was not acknowledged on a link whose peer is gone.
type returner struct{ link *link }

// RouteOf is the route of an envelope.
func (t returner) RouteOf(e *wire.Envelope) *routing.Route {
	return &t.link.process.routes[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}].Route
}

// Waits reports whether a caller waits for the answer.
func (t returner) Waits(id uint64) bool { return t.link.process.pending.Waits(id) }

// Returned takes back what the process had forwarded.
func (t returner) Returned(e *wire.Envelope, certain bool) {
	t.link.process.returned(e, certain, !t.link.SaidGoodbye())
}

// Lost notes what may have run.
func (t returner) Lost(e *wire.Envelope) {
	t.link.process.w.oracle.lose(e, "sent to one who is gone")
	t.link.process.pending.Complete(e.ID, pending.Result{Code: codeLost, Lost: t.link.Peer().Address})
}

// Again notes what is sent again.
func (t returner) Again(e *wire.Envelope) { t.link.process.pending.Sent(e.ID, nil, 0) }

// returned takes back what this process had passed on to one who is gone.
func (p *process) returned(e *wire.Envelope, certain, died bool) {
	s := p.shards[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}]
	switch {
	case e.Type == wire.TypeFlushed:
		s.Flushed(shardhost.FlushOf(e))
	case !certain:
		p.w.oracle.lose(e, "forwarded to one who is gone")
	default:
		c := newInCall(p.self, e, p.w)
		s.Return(&c.Call, died)
	}
}

// setTable takes a newer table, as a kind of package shard does.
func (p *process) setTable(t *placement.Table) {
	old := p.table
	p.table = t
	term := t.Version().Term
	same := old.Version().Term == term
	for e := range t.All() {
		r := p.routes[e.ShardID]
		if before, ok := old.Lookup(e.ShardID); ok && same && before == e && r.Target() != nil {
			continue
		}
		if s := p.shards[e.ShardID]; s != nil {
			s.Place(e.Owner, e.Epoch, term.Number)
		}
		r.Place(e.Owner, e.Epoch, term.Number)
	}
}

// dismissAfter is how long a process that has left waits for word of where the
// calls belong that it still holds.
const dismissAfter = time.Second

// leaveInOrder ends a process in order: it begins no more turns, sends on or refuses
// what waits, handles nothing more, and says so.
func (p *process) leaveInOrder(waited time.Duration) {
	holds := func(id placement.ShardID) bool { return p.shards[id].Holds() }
	if waited < dismissAfter && slices.ContainsFunc(p.w.ids, holds) {
		p.after(20*time.Millisecond, func() { p.leaveInOrder(waited + 20*time.Millisecond) })
		return
	}
	p.ending = true
	for _, id := range p.w.ids {
		p.shards[id].Dismiss()
	}
	p.publish()
	p.w.log("%s says goodbye", p.name)
	for _, l := range p.sortedLinks() {
		l.Goodbye()
	}
	p.end()
}
