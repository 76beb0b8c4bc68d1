package singlehost

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// namePrefix keeps users' singletons apart from the coordinator in messages.
const namePrefix = "type/"

// handoffAt is the status of a member in which it gives its singletons away. Leaving comes before
// Exiting, so singletons move before the member exits, as shards do.
const handoffAt = membership.Leaving

// A Hosting is a singleton that a member hosts.
type Hosting struct {
	Type     string
	Instance *Instance
	Options  singleton.Options
	Leases   Leases // used if Options.Lease is set
}

// A Set holds the singletons that a member hosts or calls.
type Set struct {
	process Process
	cluster string
	self    transport.Peer
	byName  map[string]*single
	order   []*single
}

// NewSet returns an empty Set.
func NewSet(p Process, cluster string, self transport.Peer) *Set {
	return &Set{process: p, cluster: cluster, self: self, byName: map[string]*single{}}
}

// Host adds a singleton that this member hosts. It is called before the first view.
func (g *Set) Host(h Hosting) error {
	s, err := g.add(h.Type, g.process.Callable(h.Type))
	if err != nil {
		return err
	}
	s.manager, err = singleton.New(singleton.Config{Name: namePrefix + h.Type, Self: g.self.Address, HandoffAt: handoffAt, Options: h.Options})
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Type, err)
	}
	s.instance = h.Instance
	s.instance.post = func(in singleton.Input) { g.process.Post(func() { s.step(in) }) }
	s.instance.opened = func(from transport.Address, epoch placement.Epoch) {
		g.process.Post(func() { s.predecessorOpened(from, epoch) })
	}
	if h.Options.Lease {
		s.holder = newLeaseHolder(s, h.Leases, h.Options.WithDefaults().LeaseTTL)
	}
	s.search(singleton.Want{}) // its shard here must learn where the instance has gone
	return nil
}

func (g *Set) add(kind string, callable Callable) (*single, error) {
	proxy, err := singleton.NewProxy(singleton.ProxyConfig{Name: namePrefix + kind, HandoffAt: handoffAt})
	if err != nil {
		return nil, err
	}
	s := &single{set: g, kind: kind, callable: callable, proxy: proxy}
	g.byName[kind] = s
	g.order = append(g.order, s)
	return s, nil
}

// get returns the named singleton. If the Set does not have the singleton yet, get adds it. It
// returns nil if the Set does not have it and this process cannot call it.
func (g *Set) get(kind string) *single {
	s, callable := g.byName[kind], g.process.Callable(kind)
	if s != nil {
		if callable != nil {
			s.callable = callable // the singleton may have been added for a client's question, before this process could call it
		}
		return s
	}
	if callable == nil {
		return nil
	}
	s, err := g.add(kind, callable)
	if err != nil {
		g.process.Log(slog.LevelError, "singleton cannot be called", "kind", kind, "err", err)
		return nil
	}
	if v := g.process.View(); v != nil {
		s.view(v)
	}
	return s
}

// learn adds a singleton that other members host. It returns nil if no member hosts it.
func (g *Set) learn(kind string) *single {
	v := g.process.View()
	if v == nil {
		return nil
	}
	for _, m := range v.ByAddress {
		if hostmeta.HostsSingleton(m.Member, kind) {
			s, err := g.add(kind, nil)
			if err != nil {
				return nil
			}
			s.view(v)
			return s
		}
	}
	return nil
}

// Want begins to look for a singleton's instance, because calls wait for the instance. It reports
// false if the type is not a singleton.
func (g *Set) Want(kind string) bool {
	s := g.get(kind)
	if s == nil {
		return false
	}
	s.search(singleton.Want{})
	return true
}

// Opened announces to all members that an instance runs at this member under the given epoch, so
// that the other members need not ask for the instance. It reports false if the type is not a
// singleton.
func (g *Set) Opened(kind string, epoch placement.Epoch) bool {
	if g.get(kind) == nil {
		return false
	}
	g.process.Broadcast(singleton.Message{
		Name: namePrefix + kind, Type: singleton.Identity, Instance: g.self.Address, Epoch: epoch,
	})
	return true
}

// Refused gives up the handoff of an instance, because the successor has refused its state. It
// reports false if the type is not a singleton.
func (g *Set) Refused(kind, reason string) bool {
	s := g.get(kind)
	if s == nil {
		return false
	}
	g.process.Log(slog.LevelWarn, "singleton's successor does not take its state", "kind", kind, "reason", reason)
	s.instance.close()
	return true
}

// WakeAt returns when Tick is due; zero means never.
func (g *Set) WakeAt() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, s := range g.order {
		sooner(s.proxyAt)
		sooner(s.managerAt)
		if s.holder != nil {
			sooner(s.holder.at)
		}
		if s.opening != nil {
			sooner(s.opening.until)
		}
	}
	return at
}

// Tick passes the time to the singletons that are due.
func (g *Set) Tick(now time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	for _, s := range g.order {
		if due(s.proxyAt) {
			s.search(singleton.Tick{})
		}
		if s.manager != nil && due(s.managerAt) {
			s.step(singleton.Tick{})
		}
		if s.holder != nil && due(s.holder.at) {
			s.holder.tick(now)
		}
		if o := s.opening; o != nil && due(o.until) {
			g.process.Log(slog.LevelWarn, "singleton starts without what its predecessor sent", "kind", s.kind, "from", o.from.String())
			s.open(false)
		}
	}
}

// Check returns an error that names the first broken invariant.
func (g *Set) Check() error {
	for _, s := range g.order {
		if s.manager == nil {
			continue
		}
		if err := s.manager.Check(); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	return nil
}

// ViewChanged passes the new view to the singletons.
func (g *Set) ViewChanged(v *membership.View) {
	for _, s := range g.order {
		s.view(v)
	}
}

// Lost informs the singletons that a member is gone.
func (g *Set) Lost(a transport.Address) {
	for _, s := range g.order {
		s.search(singleton.Lost{Node: a})
		if s.opening != nil && s.opening.from == a {
			s.open(false)
		}
		if s.instance != nil {
			s.instance.forsaken(func(to transport.Address) bool { return to == a })
		}
	}
}

// Settled reports whether nothing of a singleton is left at this leaving member. It also ends the
// singletons that no remaining member can take.
func (g *Set) Settled() bool {
	settled := true
	for _, s := range g.order {
		if s.manager == nil {
			continue
		}
		if s.manager.Holds() && s.manager.Alone() {
			s.step(singleton.Quit{})
		}
		if !s.manager.Holds() && s.manager.Alone() && s.instance.dropArrived() {
			g.process.Log(slog.LevelInfo, "singleton's state ends here unless it is in a store: all members that host it leave", "kind", s.kind)
		}
		s.instance.forsaken(func(to transport.Address) bool { // that member has left, too
			_, member := g.process.View().Member(to)
			return !member
		})
		if s.manager.Holds() || s.instance.holds() {
			settled = false
		}
	}
	return settled
}

// Abandon lets no further turn begin at singletons that this member could not give away, because
// the member exits. When other members have removed this member, they start the next instances
// without asking it.
func (g *Set) Abandon() {
	for _, s := range g.order {
		if s.instance != nil && s.manager.Holds() {
			g.process.Log(slog.LevelWarn, "leaving with a singleton that could not be given away", "kind", s.kind)
			s.instance.abandon()
		}
	}
}

// Message handles another process's message about a singleton.
func (g *Set) Message(from transport.Peer, m singleton.Message) {
	s := g.get(strings.TrimPrefix(m.Name, namePrefix))
	switch {
	case m.Type == singleton.Identify && from.Client:
		g.guide(from, m, s)
	case m.Type == singleton.Identify:
		g.send(from, g.identity(m, s))
	case from.Client || s == nil:
		g.process.Ignored()
	case m.Type == singleton.Identity:
		s.search(singleton.Receive{From: from.Address, Message: m})
	case s.manager != nil:
		s.step(singleton.Receive{From: from.Address, Message: m})
	}
}

func (g *Set) send(to transport.Peer, m singleton.Message) {
	if to.Address == g.self.Address {
		g.process.Post(func() { g.Message(g.self, m) })
		return
	}
	g.process.Send(to, m)
}

// identity returns the answer to a proxy's request. The answer says that the instance runs here, or
// why it does not.
func (g *Set) identity(m singleton.Message, s *single) singleton.Message {
	a := singleton.Message{Name: m.Name, Type: singleton.Identity, ID: m.ID}
	if s == nil || s.manager == nil {
		a.Reason = fmt.Sprintf("%s does not host it", g.self.Name)
		return a
	}
	if epoch, ok := s.instance.at(); ok {
		a.Instance, a.Epoch = g.self.Address, epoch
	} else if a.Reason = s.manager.Why(); a.Reason == "" {
		a.Reason = g.self.Name + " is starting it"
	}
	a.Reason = a.Reason[:min(len(a.Reason), 1024)]
	return a
}

// guide answers a process outside the cluster with the place where this member's proxy has found
// the instance.
func (g *Set) guide(from transport.Peer, m singleton.Message, s *single) {
	if s == nil { // this process has never called it
		s = g.learn(strings.TrimPrefix(m.Name, namePrefix))
	}
	a := singleton.Message{Name: m.Name, Type: singleton.Identity, ID: m.ID}
	if s == nil {
		a.Reason = "no member hosts it"
		g.send(from, a)
		return
	}
	if s.proxy.Found() == (singleton.Placement{}) {
		s.search(singleton.Want{})
	}
	if found := s.proxy.Found(); !found.Node.IsZero() && s.proxy.Why() == "" {
		a.Instance, a.Epoch = found.Node, found.Epoch
	} else {
		a.Reason = s.proxy.Why()
	}
	g.send(from, a)
}

// Seek looks for the cluster's singletons whose place is not known here. It reports whether there
// are such singletons.
func (g *Set) Seek() (seeks bool) {
	v := g.process.View()
	if v == nil {
		return false
	}
	for _, kind := range slices.Sorted(maps.Keys(hostmeta.Singletons(v))) {
		s := g.get(kind)
		if s == nil { // this process has never called it
			s = g.learn(kind)
		}
		if s != nil && s.at().IsZero() {
			s.search(singleton.Want{})
			seeks = true
		}
	}
	return seeks
}

// Rows describes all singletons of the cluster, for operators.
func (g *Set) Rows(v *membership.View) (rows []operator.Singleton) {
	hosts := hostmeta.Singletons(v)
	for _, kind := range slices.Sorted(maps.Keys(hosts)) {
		row := operator.Singleton{Kind: kind, Hosts: hosts[kind], Why: "nobody has asked for it at " + g.self.Name}
		if s := g.get(kind); s != nil {
			if row.Node, row.Why = s.at(), ""; row.Node.IsZero() {
				row.Why = s.proxy.Why()
			}
		}
		rows = append(rows, row)
	}
	return rows
}
