package sharding

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A gateway serves the table to processes outside of the cluster, as that of
// package shard does.
type gateway struct {
	control *control
	clients map[*process]*served
	last    *placement.Table
	gone    []transport.Address // the latest that were downed
	asked   time.Time           // when a client last waited for a home
}

type served struct {
	seen    time.Time
	members uint64 // version of the view that it was told
	hello   uint64 // its latest
}

func (g *gateway) init(c *control) { g.control, g.clients = c, map[*process]*served{} }

const (
	helloEvery    = time.Second
	gatewayForget = 10 * time.Second
)

// sorted are the clients in the order of their begin.
func (g *gateway) sorted() []*process {
	return slices.SortedFunc(maps.Keys(g.clients), func(a, b *process) int { return a.number - b.number })
}

// hello takes a client in, or hears that it is still there.
func (g *gateway) hello(from *process, n uint64, asks bool) {
	c := g.control
	if c.status != singleton.Up {
		return // another member answers the next one
	}
	s := g.clients[from]
	if s == nil {
		s = &served{}
		g.clients[from] = s
	}
	s.seen, s.hello = c.process.w.now, n
	if asks {
		g.asked = c.process.w.now
		c.ask()
	}
	g.welcome(from)
	g.status(from)
}

// welcome tells a client who the members are and who was lost.
func (g *gateway) welcome(to *process) {
	c := g.control
	g.clients[to].members = c.seen
	w := welcome{
		founder: c.view.Founder, hello: g.clients[to].hello, version: c.seen,
		members: map[transport.Address]bool{}, lost: slices.Clone(g.gone),
	}
	for _, m := range c.view.ByAge {
		if m.Status != membership.Down {
			w.members[m.Address] = true
		}
	}
	c.process.w.post(c.process, to, func() { to.client.welcome(c.process, w) })
}

func (g *gateway) status(to *process) {
	if t := g.control.follower.Table(); t != nil {
		g.control.send(to, coordinator.TableStatus{Version: t.Version()})
	}
}

// placement answers a client's part of the table protocol.
func (g *gateway) placement(from *process, m coordinator.Message) {
	if r, ok := m.(coordinator.TableRequest); ok {
		for _, part := range coordinator.Answer(g.control.follower.Table(), r) {
			g.control.send(from, part)
		}
	}
}

func (g *gateway) tableChanged(t *placement.Table) {
	last := g.last
	g.last = t
	for _, part := range coordinator.Split(last.Diff(t)) {
		for _, to := range g.sorted() {
			g.control.send(to, part)
		}
	}
}

func (g *gateway) membersChanged() {
	for _, to := range g.sorted() {
		if g.clients[to].members != g.control.seen {
			g.welcome(to)
		}
	}
}

func (g *gateway) lostMember(a transport.Address) { g.gone = append(g.gone, a) }

// wants tells whether a client waits for a home.
func (g *gateway) wants() bool {
	return !g.asked.IsZero() && g.control.process.w.now.Sub(g.asked) < 2*helloEvery
}

func (g *gateway) tick() {
	for _, to := range g.sorted() {
		if g.control.process.w.now.Sub(g.clients[to].seen) > gatewayForget {
			delete(g.clients, to)
			continue
		}
		g.status(to)
	}
}

// A welcome is what a gateway tells of the members.
type welcome struct {
	founder transport.Address
	hello   uint64 // that it answers
	version uint64 // of the view; a session's messages keep their order
	members map[transport.Address]bool
	lost    []transport.Address
}

// A client is the control plane of a process that is no member: it follows the
// table through one member, as a Conn of package shard does.
type client struct {
	process  *process
	follower *coordinator.Follower
	gateway  *process
	founder  transport.Address // of the life of the cluster that it is in
	hellos   uint64            // that were sent
	since    uint64            // the first hello since it looks for a member
	version  uint64            // of its gateway's view
	heard    time.Time
	asks     bool
	members  map[transport.Address]bool
	absent   map[transport.Address]time.Time
	wakeAt   time.Time
}

func newClient(p *process) *client {
	return &client{
		process: p, follower: coordinator.NewFollower(false),
		members: map[transport.Address]bool{}, absent: map[transport.Address]time.Time{},
	}
}

func (c *client) start() { c.process.after(c.process.w.upTo(100*time.Millisecond), c.tick) }

// tick says hello to the member that serves this process, or looks for one.
func (c *client) tick() {
	w := c.process.w
	if w.now.Sub(c.heard) > 3*helloEvery {
		c.search()
	}
	next := helloEvery
	if c.gateway == nil {
		next = 100 * time.Millisecond
	}
	c.process.after(next, c.tick)
	c.hello()
}

func (c *client) hello() {
	w, to := c.process.w, c.gateway
	if to != nil && !to.alive { // the broker says that nobody listens
		c.search()
		to = nil
	}
	if to == nil {
		to = w.pick(func(p *process) bool { return p.host && p.alive && p.control.status == singleton.Up })
	}
	if to == nil {
		return
	}
	c.asks = c.asks && c.process.held() > 0
	asks := c.asks
	c.hellos++
	n := c.hellos
	w.post(c.process, to, func() { to.control.gateway.hello(c.process, n, asks) })
}

// search looks for a member that serves this client: from the next hello on.
func (c *client) search() {
	if c.gateway != nil {
		c.gateway, c.since = nil, c.hellos+1
	}
}

// beginAnew forgets what was known of another life of the cluster.
func (c *client) beginAnew(members map[transport.Address]bool) {
	p := c.process
	p.w.log("%s begins anew", p.name)
	c.follower, p.table = coordinator.NewFollower(false), nil
	clear(c.absent)
	for _, id := range p.w.ids {
		p.routes[id].BeginAnew()
	}
	for _, l := range p.sortedLinks() {
		if a := l.Peer().Address; !members[a] {
			p.peerGone(a, false, true)
		}
	}
	for a := range members {
		delete(p.gone, a) // a life that this client comes back to
	}
	if p.held() > 0 {
		c.ask()
	}
}

func (c *client) ask() {
	if !c.asks {
		c.asks = true
		c.process.after(5*time.Millisecond, c.hello)
	}
}

// welcome takes a gateway's word on who is a member.
func (c *client) welcome(from *process, m welcome) {
	switch {
	case c.gateway == nil && m.hello >= c.since:
		before := c.founder
		c.gateway, c.founder, c.version = from, m.founder, 0
		if before != m.founder && !before.IsZero() {
			c.beginAnew(m.members)
		}
	case c.gateway != from, m.version < c.version:
		return
	}
	c.version = m.version
	c.heard = c.process.w.now
	c.members = m.members
	for _, a := range m.lost {
		c.process.peerGone(a, false, true)
	}
	c.partWithAbsent()
}

// partWithAbsent ends dealings with peers that have been no members for so long
// that they would have said goodbye by now. It goes by fresh word of the members.
func (c *client) partWithAbsent() {
	if len(c.members) == 0 {
		return
	}
	now := c.process.w.now
	for _, l := range c.process.sortedLinks() {
		a := l.Peer().Address
		since, absent := c.absent[a]
		switch {
		case c.members[a]:
			delete(c.absent, a)
		case !absent:
			c.absent[a] = now
		case now.Sub(since) >= byeGrace:
			delete(c.absent, a)
			c.process.peerGone(a, false, true)
		}
	}
}

// step follows the table.
func (c *client) step(from *process, m coordinator.Message) {
	p := c.process
	var address transport.Address
	if from != nil {
		if from != c.gateway {
			return // of another life of the cluster, perhaps
		}
		address, c.heard = from.self.Address, p.w.now
	}
	out := c.follower.Step(p.w.now, address, m)
	if out.Table != nil {
		p.setTable(out.Table)
	}
	for _, m := range out.Send {
		if to := c.gateway; to != nil && to.alive {
			p.w.post(p, to, func() { to.placement(p, m) })
		}
	}
	if at := out.WakeAt; !at.IsZero() && (c.wakeAt.IsZero() || at.Before(c.wakeAt)) {
		c.wakeAt = at
		p.after(max(at.Sub(p.w.now), time.Millisecond), func() {
			if c.wakeAt.Equal(at) {
				c.wakeAt = time.Time{}
				c.step(nil, nil)
			}
		})
	}
}
