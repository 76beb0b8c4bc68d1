package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// singletonPrefix stands before the type's name in messages about singletons of
// users, which so never meet the coordinator's.
const singletonPrefix = "type/"

// singletonAt is the status at which users' singletons are given away: before a
// member may exit, like its shards.
const singletonAt = singleton.Leaving

// singles are all singletons that a node hosts or calls. It belongs to the
// control loop.
type singles struct {
	control *control
	byName  map[string]*single
	order   []*single
}

// get is the singleton of that type, made when it is first asked for; nil if the
// type is no singleton.
func (g *singles) get(kind string) *single {
	s, k := g.byName[kind], (*g.control.plane.kinds.Load())[kind]
	if s != nil {
		if k != nil && k.desc.Singleton {
			s.kind = k // it may be called here only since it was guided to
		}
		return s
	}
	if k == nil || !k.desc.Singleton || k.err != nil {
		return nil
	}
	s, err := g.add(k)
	if err != nil {
		g.control.node.log.Error("singleton cannot be called", "kind", kind, "err", err)
		return nil
	}
	if v := g.control.view.Load(); v != nil {
		s.view(v)
	}
	return s
}

func (g *singles) add(k *kind) (*single, error) {
	s := &single{control: g.control, kind: k}
	var err error
	s.proxy, err = singleton.NewProxy(singleton.ProxyConfig{Name: singletonPrefix + k.desc.Name, HandOverAt: singletonAt})
	if err != nil {
		return nil, err
	}
	if g.byName == nil {
		g.byName = map[string]*single{}
	}
	g.byName[k.desc.Name] = s
	g.order = append(g.order, s)
	return s, nil
}

// prepare makes the machines of the hosted singletons.
func (g *singles) prepare() error {
	for _, h := range g.control.node.hosted() {
		if !h.desc.Singleton {
			continue
		}
		s, err := g.add(h.kind)
		if err != nil {
			return err
		}
		o := h.settings.single
		s.manager, err = singleton.New(singleton.Config{
			Name: singletonPrefix + h.desc.Name, Self: g.control.self, HandOverAt: singletonAt,
			RetryInterval: o.HandOverRetry, MaxRetries: o.MaxHandOverRetries, RemovalMargin: o.RemovalMargin,
			RestartBackoff: o.RestartBackoff, MaxRestartBackoff: o.MaxRestartBackoff, StableAfter: o.StableAfter,
			Lease: o.Lease != nil, LeaseRetryInterval: o.LeaseRetry,
		})
		if err != nil {
			return fmt.Errorf("host %s: %w", h.desc.Name, err)
		}
		s.instance = h.instance
		s.instance.post = func(in singleton.Input) { g.control.loop.Post(func() { s.step(in) }) }
		s.instance.opened = func(from transport.Address, epoch placement.Epoch) {
			g.control.loop.Post(func() { s.predecessorOpened(from, epoch) })
		}
		if o.Lease != nil {
			s.keeper = newLeaseKeeper(s, o.Lease, o.LeaseTTL)
		}
		s.search(singleton.Want{}) // its shard here has to know where it went
	}
	return nil
}

func (g *singles) wakeAt() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, s := range g.order {
		sooner(s.wakes[0])
		sooner(s.wakes[1])
		if s.opening != nil {
			sooner(s.opening.until)
		}
	}
	return at
}

func (g *singles) tick(now time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	for _, s := range g.order {
		if due(s.wakes[0]) {
			s.search(singleton.Tick{})
		}
		if s.manager != nil && due(s.wakes[1]) {
			s.step(singleton.Tick{})
		}
		if o := s.opening; o != nil && due(o.until) {
			s.control.node.log.Warn("singleton starts without what its predecessor sent", "kind", s.kind.desc.Name, "from", o.from.String())
			s.open(false)
		}
	}
}

func (g *singles) viewChanged(v *membership.View) {
	for _, s := range g.order {
		s.view(v)
	}
}

// lost tells that a member is gone.
func (g *singles) lost(a transport.Address) {
	for _, s := range g.order {
		s.search(singleton.Lost{Node: a})
		if s.opening != nil && s.opening.from == a {
			s.open(false)
		}
		if s.instance != nil {
			s.instance.successorGone(a)
		}
	}
}

// settled reports whether this leaving node has given all singletons away, as far
// as there is anybody to give them to; the others it stops.
func (g *singles) settled(v *membership.View) bool {
	settled := true
	for _, s := range g.order {
		if s.manager == nil {
			continue
		}
		if s.manager.Holds() && s.manager.Oldest().IsZero() {
			s.step(singleton.Quit{})
		}
		if !s.manager.Holds() && s.manager.Oldest().IsZero() {
			s.instance.dropArrived()
		}
		if s.manager.Holds() || s.instance.holds() {
			settled = false
		}
	}
	return settled
}

// abandon forbids further turns of singletons that are still here: this node
// exits, and once it is removed the next instance starts without asking.
func (g *singles) abandon() {
	for _, s := range g.order {
		if s.instance != nil && s.manager.Holds() {
			g.control.node.log.Warn("leaving with a singleton that could not be given away", "kind", s.kind.desc.Name)
			s.instance.abandon()
		}
	}
}

// message handles what another process says about a singleton.
func (g *singles) message(from transport.Peer, m singleton.Message) {
	s := g.get(strings.TrimPrefix(m.Name, singletonPrefix))
	switch {
	case m.Type == singleton.Identify && from.Client:
		g.guide(from, m, s)
	case m.Type == singleton.Identify:
		g.send(from, g.identity(m, s))
	case from.Client || s == nil:
		g.control.plane.counters.add(frameIgnored)
	case m.Type == singleton.Identity:
		s.search(singleton.Receive{From: from.Address, Message: m})
	case s.manager != nil:
		s.step(singleton.Receive{From: from.Address, Message: m})
	}
}

func (g *singles) send(to transport.Peer, m singleton.Message) {
	c := g.control
	if to.Address == c.self {
		c.loop.Post(func() { g.message(c.plane.self, m) })
		return
	}
	body, err := singleton.Encode(m)
	c.send(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body, err)
}

// identity answers a proxy: the instance runs here, or why it does not.
func (g *singles) identity(m singleton.Message, s *single) singleton.Message {
	a := singleton.Message{Name: m.Name, Type: singleton.Identity, ID: m.ID}
	if s == nil || s.manager == nil {
		a.Reason = fmt.Sprintf("%s does not host it", g.control.node.cfg.Name)
		return a
	}
	if epoch, ok := s.instance.at(); ok {
		a.Instance, a.Epoch = g.control.self, epoch
	} else if a.Reason = s.manager.Why(); a.Reason == "" {
		a.Reason = g.control.node.cfg.Name + " is starting it"
	}
	a.Reason = a.Reason[:min(len(a.Reason), 1024)]
	return a
}

// announce tells all members that an instance has begun here, so that their
// proxies need not come to ask again.
func (g *singles) announce(kind string, epoch placement.Epoch) {
	body, err := singleton.Encode(singleton.Message{
		Name: singletonPrefix + kind, Type: singleton.Identity, Instance: g.control.self, Epoch: epoch,
	})
	g.control.send(transport.Peer{}, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body, err)
}

// guide answers a process that is no member with what this node's proxy found.
func (g *singles) guide(from transport.Peer, m singleton.Message, s *single) {
	if s == nil { // nobody here ever called it: what the type looks like is in the question
		s = g.learn(strings.TrimPrefix(m.Name, singletonPrefix))
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

// learn makes a singleton known that other members host.
func (g *singles) learn(name string) *single {
	v := g.control.view.Load()
	if v == nil {
		return nil
	}
	for _, m := range v.ByAddress {
		if hostsSingleton(m.Member, name) {
			s, err := g.add(&kind{plane: g.control.plane, desc: codegen.Kind{Name: name, Singleton: true}})
			if err != nil {
				return nil
			}
			s.view(v)
			return s
		}
	}
	return nil
}

// metaSingleton begins the metadata keys of hosted singletons.
const metaSingleton = "singleton/"

func hostsSingleton(m membership.Member, kind string) bool {
	return slices.ContainsFunc(m.Meta, func(kv membership.KeyValue) bool { return kv.Key == metaSingleton+kind })
}
