package sharding

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A process has links to others, a route to each shard, and, if it hosts, the
// shards and a control plane.
type process struct {
	w          *world
	number     int // of its begin
	name       string
	self       transport.Peer
	host       bool
	alive      bool
	paused     bool
	backlog    []func() // what came while it was paused
	written    bool     // the oracle counts its state as lost
	connected  bool
	leaseUntil time.Time
	ending     bool     // it has left in order: no turn begins any more, answers may leave
	control    *control // a host's
	client     *client  // another one's
	life       int      // of its connection
	links      map[transport.Address]*link
	gone       map[transport.Address]bool
	silent     []transport.Address // the latest from which nothing comes any more
	routes     map[placement.ShardID]*route
	shards     map[placement.ShardID]*hosted
	pending    map[uint64]*ask
	holding    int // calls that routes hold, as they count them
	threads    []*thread
	nextID     uint64
	table      *placement.Table
	late       bool // gets tables late
	dirty      []*link
}

// A link drives one call.Path.
type link struct {
	process *process
	mu      sync.Mutex // for nobody, but whoever takes it twice never goes on
	peer    transport.Peer
	core    *call.Path
	handled uint64
	gone    bool
	bye     bool // it is gone because the peer said so
	stopped []*routing.Route
	arrives time.Time
	before  []byte // the latest frame that came to the peer
	wakeAt  time.Time
}

func newProcess(w *world, name string, incarnation uint64, host bool) *process {
	p := &process{
		w: w, number: len(w.procs), name: name, host: host, alive: true, connected: true,
		self:   transport.Peer{Address: transport.Address{Name: name, Incarnation: incarnation}, Client: !host},
		links:  map[transport.Address]*link{},
		gone:   map[transport.Address]bool{},
		routes: map[placement.ShardID]*route{}, shards: map[placement.ShardID]*hosted{},
		pending: map[uint64]*ask{},
		late:    w.one(3),
	}
	for _, id := range w.ids {
		p.routes[id] = newRoute(p, id)
		if host {
			p.shards[id] = newHosted(p, id)
		}
	}
	if host {
		p.control = newControl(p)
	} else {
		p.client = newClient(p)
	}
	return p
}

// after does something later, unless the process has ended.
func (p *process) after(d time.Duration, do func()) { p.w.schedule(d, p, do) }

// leased tells whether a turn may begin.
func (p *process) leased() bool { return p.w.now.Before(p.leaseUntil) && !p.ending }

// mayAnswer tells whether what has run may be answered, and calls leave behind it.
func (p *process) mayAnswer() bool { return !p.host || p.ending || p.leased() }

// healthy tells whether it is a member that works.
func (p *process) healthy() bool {
	return p.alive && p.host && !p.paused && p.control.status == singleton.Up && p.leased()
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
	return len(p.pending) > 0 || p.held() > 0 || slices.ContainsFunc(p.threads, func(t *thread) bool { return t.busy })
}

// end ends a process at once. One that is to come back begins anew after a while.
func (p *process) end() {
	w := p.w
	if !p.alive {
		return
	}
	w.log("%s#%d ends", p.name, p.self.Incarnation)
	p.alive = false
	w.oracle.writeOff(p)
	if w.plan.restarts && w.faulty && p.host && !w.one(4) {
		w.after(w.between(20*time.Millisecond, 2*time.Second), func() { w.begin(p.name, true) })
	}
}

func (p *process) sortedLinks() []*link {
	var out []*link
	for _, l := range p.links {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *link) int { return cmp.Compare(a.peer.Name, b.peer.Name) })
	return out
}

// link is the path to a peer, nil when it was removed.
func (p *process) link(a transport.Address) *link {
	if a.IsZero() || p.gone[a] {
		return nil
	}
	l := p.links[a]
	if l == nil {
		o := p.w.process(a)
		cfg := call.Config{Self: p.self, MaxPayload: 1 << 20, Window: 64 << 10, MaxBuffered: 8 << 20}
		if o.self.Client || p.self.Client {
			p.w.sessions++
			cfg.Session = p.w.sessions
		}
		l = &link{process: p, peer: o.self, core: call.NewPath(cfg, o.self)}
		p.links[a] = l
	}
	return l
}

func (p *process) silenced(a transport.Address) bool {
	l := p.links[a]
	return p.gone[a] || l != nil && l.gone
}

// append adds an envelope; ok is false when the peer is gone.
func (l *link) append(e *wire.Envelope) (seq uint64, ok bool) {
	if l == nil {
		return 0, false
	}
	seq, err := l.Append(e)
	if err == nil {
		l.later()
	}
	return seq, err == nil
}

var errGone = errors.New("the peer is gone")

// Lock is held while envelopes are appended.
func (l *link) Lock() { l.mu.Lock() }

// Unlock ends Lock.
func (l *link) Unlock() { l.mu.Unlock() }

// GoneLocked reports whether the peer is gone.
func (l *link) GoneLocked() bool { return l.gone }

// AckedLocked is the highest sequence that the peer has acknowledged.
func (l *link) AckedLocked() uint64 { return l.core.Acked() }

// AwaitLocked has the route told of the peer's acknowledgements.
func (l *link) AwaitLocked(r *routing.Route) {
	if !slices.Contains(l.stopped, r) {
		l.stopped = append(l.stopped, r)
	}
}

// Append adds an envelope, which Flush publishes.
func (l *link) Append(e *wire.Envelope) (seq uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.AppendLocked(e)
}

// AppendLocked is Append with the lock held.
func (l *link) AppendLocked(e *wire.Envelope) (seq uint64, err error) {
	if l.gone {
		return 0, errGone
	}
	if seq, err = l.core.Append(e); err != nil {
		l.process.w.fail("%s: append: %v", l.process.name, err)
	}
	return seq, err
}

// AppendAll adds envelopes with nothing between them.
func (l *link) AppendAll(parts []*wire.Envelope) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.process.shards[placement.ShardID{Kind: string(parts[0].Kind), Shard: parts[0].Shard}]
	if s.Core.State() != region.Sent || s.Core.MoveEpoch() != placement.Epoch(parts[0].Epoch) {
		l.process.w.fail("%s sends %v at %v, which is %v", l.process.name, s.ID, placement.Epoch(parts[0].Epoch), s.Core.State())
	}
	for _, e := range parts {
		if _, err := l.AppendLocked(e); err != nil {
			return err
		}
	}
	return nil
}

// Peer is the process at the other end.
func (l *link) Peer() transport.Peer { return l.peer }

// Flush has what was added published. Nobody may hold the lock.
func (l *link) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later()
}

// later publishes at the end of what is under way.
func (l *link) later() {
	p := l.process
	if !slices.Contains(p.dirty, l) {
		if len(p.dirty) == 0 {
			p.after(0, p.publish)
		}
		p.dirty = append(p.dirty, l)
	}
}

func (p *process) publish() {
	dirty := p.dirty
	p.dirty = nil
	for _, l := range dirty {
		l.flush()
	}
}

func (l *link) flush() {
	w := l.process.w
	if !l.process.alive || l.gone {
		return
	}
	for {
		take := l.core.Take
		if !l.process.mayAnswer() {
			take = l.core.TakeAck // an answer must not leave, and calls stand behind answers
		}
		payload, token, ok := take(w.now, l.handled)
		if !ok {
			break
		}
		if !l.process.connected {
			l.core.Unsent(token, w.now)
			break
		}
		w.transmit(l, token, slices.Clone(payload))
	}
	l.arm()
}

// leaseLook is how often a path looks whether its process may answer again.
const leaseLook = 20 * time.Millisecond

func (l *link) arm() {
	p, w := l.process, l.process.w
	wake := l.core.Tick(w.now)
	if soon := w.now.Add(leaseLook); !p.mayAnswer() && l.core.Unpublished() && (wake.IsZero() || wake.After(soon)) {
		wake = soon
	}
	if wake.IsZero() || !l.wakeAt.IsZero() && !l.wakeAt.After(wake) {
		return
	}
	l.wakeAt = wake
	p.after(max(wake.Sub(w.now), time.Millisecond), func() {
		if l.wakeAt.Equal(wake) {
			l.wakeAt = time.Time{}
		}
		l.core.Tick(w.now)
		l.flush()
	})
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
			l.core.Rewind()
			l.flush()
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
	if l == nil || l.gone {
		return
	}
	skip, ok := l.core.Receive(&h, p.w.now)
	if !ok {
		l.flush()
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
		l.handled = seq
	}
	p.received(l, &h, len(payload))
}

func (p *process) received(l *link, h *wire.FrameHeader, size int) {
	if l.core.Dropped() {
		p.w.fail("%s: %s counts as having dropped the path", p.name, l.peer.Name)
	}
	progress := l.core.Ack(h, p.w.now)
	l.core.AckOwed(l.handled, size)
	if progress && len(l.stopped) > 0 {
		stopped := l.stopped
		l.stopped = nil
		for _, r := range stopped {
			r.Acked(l.peer.Address, l.core.Acked())
		}
	}
	l.flush()
	if h.Flags&wire.FlagBye != 0 {
		p.peerGone(l.peer.Address, true, false)
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
		l.core.AckSoon()
		s.Flush(flushOf(l.peer, p.self, epoch, placement.Epoch(e.Hop), e.Node.Address))
	case wire.TypeCancel:
		s.cancel(l.peer.Address, string(e.Entity), e.ID)
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
		p.complete(e.ID, answer{code: e.Code})
		return
	}
	env, ok := l.core.Find(e.Seq)
	if !ok {
		p.w.fail("%s: %s refused %d, which was given up", p.name, l.peer.Name, e.Seq)
		return
	}
	r := p.routes[placement.ShardID{Kind: string(env.Kind), Shard: env.Shard}]
	p.w.log("%s: %s refuses %s, names %v at %v", p.name, l.peer.Name, label(&env), e.Node.Address.Name, placement.Epoch(e.Epoch))
	r.Refused(l.peer.Address, env, e.Node.Address, placement.Epoch(e.Epoch))
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
	var left []call.Leftover
	var stopped []*routing.Route
	if l != nil && !l.gone {
		l.gone, l.bye = true, bye
		left, stopped, l.stopped = l.core.Leftovers(bye), l.stopped, nil
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
	p.lost(func(c *ask) bool { return c.link != nil && c.link.peer.Address == a && !c.link.bye })
}

// returner sorts what was not acknowledged on a link whose peer is gone.
type returner struct{ link *link }

// RouteOf is the route of an envelope.
func (t returner) RouteOf(e *wire.Envelope) *routing.Route {
	return &t.link.process.routes[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}].Route
}

// Waits reports whether a caller waits for the answer.
func (t returner) Waits(id uint64) bool { return t.link.process.pending[id] != nil }

// Returned takes back what the process had forwarded.
func (t returner) Returned(e *wire.Envelope, certain bool) { t.link.process.returned(e, certain) }

// Lost notes what may have run.
func (t returner) Lost(e *wire.Envelope) {
	t.link.process.w.oracle.lose(e, "sent to one who is gone")
	t.link.process.complete(e.ID, answer{lost: true})
}

// Again notes what is sent again.
func (t returner) Again(e *wire.Envelope) { t.link.process.sent(e.ID, nil, 0) }

// returned takes back what this process had passed on to one who is gone.
func (p *process) returned(e *wire.Envelope, certain bool) {
	s := p.shards[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}]
	switch {
	case e.Type == wire.TypeFlushed:
		s.Flushed(flushOf(e.Node, e.Via, placement.Epoch(e.Epoch), placement.Epoch(e.Hop), transport.Address{}))
	case !certain:
		p.w.oracle.lose(e, "forwarded to one who is gone")
	default:
		c := newInCall(p.self, e, p.w)
		s.Return(&c.Call)
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

// farewell ends a process in order: it begins no more turns, sends on or refuses
// what waits, handles nothing more, and says so.
func (p *process) farewell(waited time.Duration) {
	holds := func(id placement.ShardID) bool { return p.shards[id].Holds() }
	if waited < dismissAfter && slices.ContainsFunc(p.w.ids, holds) {
		p.after(20*time.Millisecond, func() { p.farewell(waited + 20*time.Millisecond) })
		return
	}
	p.ending = true
	for _, id := range p.w.ids {
		p.shards[id].Dismiss()
	}
	p.publish()
	p.w.log("%s says goodbye", p.name)
	for _, l := range p.sortedLinks() {
		if l.gone {
			continue
		}
		l.flush()
		if l.core.Next() > 1 || l.core.Received() > 0 {
			p.w.transmit(l, 0, slices.Clone(l.core.Bye(l.handled)))
		}
	}
	p.end()
}
