package shard

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/internal/loop"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// control drives the control plane of a member on one goroutine: membership, the
// coordinator's singleton, the coordinator while it is here, and the table.
// Everything that others call only posts to the loop.
type control struct {
	node  *Node
	plane *plane
	link  transport.Link
	loop  *loop.Loop
	self  transport.Address

	members    *membership.Machine
	view       atomic.Pointer[membership.View]
	manager    *singleton.Manager
	coord      *coordinator.Coordinator
	follower   *coordinator.Follower
	reports    reports
	inquiries  inquiries
	gateway    gateway
	quarantine quarantine
	singles    *singlehost.Set
	seeds      seeds
	wakes      [4]time.Time // of members, manager, coord, follower
	started    bool
	joining    bool   // the machine has started
	refusal    string // why a member did not admit this node, as last logged
	exitReady  bool
	limit      int    // bytes that the broker takes in a message, as last told to members
	tooLarge   string // the joiner that was refused for its size, as last logged

	suspectMu sync.Mutex
	suspects  map[transport.Address]time.Time // when last reported

	serves  atomic.Bool // as last wished
	serveMu sync.Mutex  // held while the broker is told

	reasons homeReasons // why kinds have no home
}

// serveTimeout bounds telling the broker whether this member serves.
const serveTimeout = 5 * time.Second

// indexes into wakes.
const (
	wakeMembers = iota
	wakeManager
	wakeCoord
	wakeFollower
)

func newControl(n *Node) *control {
	c := &control{
		node: n, plane: n.plane, self: n.plane.self.Address, loop: loop.New(),
		suspects: map[transport.Address]time.Time{},
	}
	c.reports.init(c)
	c.quarantine.control = c
	c.inquiries.open = map[uint64]func(transport.Address, coordinator.Message){}
	c.gateway.init(c)
	return c
}

// prepare makes the machines; nothing runs yet.
func (c *control) prepare() (err error) {
	cfg := c.node.cfg
	if c.members, err = c.newMembers(cfg.Seeds); err != nil {
		return err
	}
	if c.manager, err = singleton.New(singleton.Config{Name: coordinatorSingleton, Self: c.self}); err != nil {
		return err
	}
	c.follower = coordinator.NewFollower(len(c.node.hosted()) > 0)
	return c.hostSingletons()
}

// hostSingletons begins the hosting of singletons.
func (c *control) hostSingletons() error {
	c.singles = singlehost.NewSet(singletonMember{c}, c.node.cfg.Cluster, c.plane.self, c.node.log)
	for _, h := range c.node.hosted() {
		if !h.desc.Singleton {
			continue
		}
		o := h.settings.single
		err := c.singles.Host(singlehost.Hosting{
			Kind: h.desc.Name, Instance: h.instance, Lease: o.Lease, LeaseTTL: o.LeaseTTL,
			Manager: singleton.Config{
				RetryInterval: o.HandOverRetry, MaxRetries: o.MaxHandOverRetries, RemovalMargin: o.RemovalMargin,
				RestartBackoff: o.RestartBackoff, MaxRestartBackoff: o.MaxRestartBackoff, StableAfter: o.StableAfter,
				LeaseRetryInterval: o.LeaseRetry,
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newMembers makes the membership's machine for a node that joins through seeds.
func (c *control) newMembers(seeds []string) (*membership.Machine, error) {
	meta, compat := c.describe()
	return membership.New(c.node.cfg.membershipConfig(c.self, seeds, meta, compat))
}

// describe is what this node tells others of itself, and what must be equal.
func (c *control) describe() (meta, compat []membership.KeyValue) {
	add := func(list *[]membership.KeyValue, key, format string, args ...any) {
		*list = append(*list, membership.KeyValue{Key: key, Value: fmt.Sprintf(format, args...)})
	}
	add(&compat, "lanes", "%d", c.node.cfg.Lanes)
	add(&compat, "frame format", "%d", wire.FrameVersion)
	add(&compat, "control format", "%d", wire.ControlFormat)
	compat = append(compat, c.node.cfg.Membership.compat()...)
	for _, declared := range c.node.declared() {
		k := declared.desc
		switch {
		case declared.host == nil: // a proxy
		case k.Singleton:
			add(&meta, hostmeta.SingletonKey(k.Name), "%d %s %s role=%s handoff=%s", declared.shards, k.HashName, k.Package,
				declared.declared.role, declared.declared.handoff)
		default:
			add(&meta, hostmeta.EntityKey(k.Name), "%d %s %s role=%s handoff=%s", declared.shards, k.HashName, k.Package,
				declared.declared.role, declared.declared.handoff)
		}
		add(&compat, "type "+k.Name+" shards", "%d", declared.shards)
		add(&compat, "type "+k.Name+" shard function", "%s", k.HashName)
		add(&compat, "type "+k.Name+" package", "%s", k.Package)
		add(&compat, "type "+k.Name+" role", "%s", declared.declared.role)
		add(&compat, "type "+k.Name+" handoff", "%v", declared.declared.handoff)
		add(&compat, "type "+k.Name+" is a singleton", "%t", k.Singleton)
		add(&compat, "type "+k.Name+" is remembered", "%s", declared.declared.remembers())
		if k.Singleton {
			add(&compat, "type "+k.Name+" has a lease", "%t", declared.declared.single.Lease != nil)
		}
	}
	return meta, compat
}

// coordinatorSingleton names the coordinator among singletons.
const coordinatorSingleton = "coordinator"

// run drives the machines until the node stops.
func (c *control) run(stop <-chan struct{}) {
	c.loop.Post(func() {
		c.started = true
		s := c.link.State(transport.Control)
		c.stepMembers(membership.ConnState{Connected: s.Connected, Server: s.Server})
		if !c.node.cfg.JoinByCommand {
			c.joining = true
			c.seeds.begin(c.node.cfg.Seeds, c.self.Name, c.node.cfg.Membership.SeedTimeout, time.Now())
			c.stepMembers(membership.Start{})
		}
		for kind := range *c.plane.kinds.Load() { // calls since before Start; nobody listened then
			if c.plane.heldFor(kind) > 0 {
				c.askHome(kind)
			}
		}
	})
	c.loop.Run(stop, c.tick, c.wake)
}

// connState follows the control channel's connection.
func (c *control) connState(s transport.State) {
	c.loop.Post(func() {
		if c.started {
			c.stepMembers(membership.ConnState{Connected: s.Connected, Server: s.Server})
		}
	})
}

// receive brings the control channel's messages to the loop.
func (c *control) receive() {
	for {
		m, err := c.link.Receive(transport.Control)
		if err != nil {
			if !errors.Is(err, transport.ErrClosed) {
				c.node.log.Error("control channel stopped", "err", err)
			}
			return
		}
		at := time.Now()
		c.loop.Post(func() { c.message(m, at) })
	}
}

func (c *control) tick() {
	now := time.Now()
	due := func(i int) bool { return !c.wakes[i].IsZero() && !now.Before(c.wakes[i]) }
	if due(wakeMembers) {
		c.stepMembers(membership.Tick{})
	}
	if due(wakeManager) {
		c.stepManager(singleton.Tick{})
	}
	if c.coord != nil && due(wakeCoord) {
		c.stepCoordinator(coordinator.Tick{})
	}
	if due(wakeFollower) {
		c.stepFollower(transport.Address{}, nil)
	}
	c.tellSeeds(now)
	c.singles.Tick(now)
	c.reports.resend(now)
	c.gateway.tick(now)
}

func (c *control) wake() time.Time {
	at := time.Now().Add(time.Second)
	for _, w := range append(c.wakes[:], c.reports.wakeAt(), c.gateway.wakeAt(), c.singles.WakeAt()) {
		if !w.IsZero() && w.Before(at) {
			at = w
		}
	}
	return at
}

// message handles one message of the control channel.
func (c *control) message(m transport.Message, at time.Time) {
	if m.Kind == transport.Unreachable && m.From.IsZero() {
		c.stepMembers(membership.Vacant{})
		return
	}
	if m.Kind == transport.Unreachable {
		c.stepMembers(membership.Unreachable{Peer: m.From, Server: m.Server})
		c.gateway.unreachable(m.From)
		return
	}
	from, topic, body, err := wire.OpenControl(c.node.cfg.Cluster, m.Payload)
	if err != nil {
		c.foreign(len(m.Payload), err)
		return
	}
	switch topic {
	case wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP:
		msg, err := membership.Decode(body)
		if errors.Is(err, membership.ErrUnknown) {
			c.newer(err)
			return
		}
		if err != nil {
			c.foreign(len(body), err)
			return
		}
		c.noteRefusal(from.Address, msg)
		c.stepMembers(membership.Receive{From: from.Address, Message: msg, Server: m.Server, Waited: time.Since(at)})
	case wire.ControlTopic_CONTROL_TOPIC_SINGLETON:
		msg, err := singleton.Decode(body)
		if err != nil {
			c.foreign(len(body), err)
			return
		}
		if msg.Name != coordinatorSingleton {
			c.singles.Message(from, msg)
		} else if !from.Client {
			c.stepManager(singleton.Receive{From: from.Address, Message: msg})
		}
	case wire.ControlTopic_CONTROL_TOPIC_COORDINATOR:
		msg, err := coordinator.Decode(body)
		if err != nil {
			c.foreign(len(body), err)
			return
		}
		c.placementMessage(from, msg)
	case wire.ControlTopic_CONTROL_TOPIC_GATEWAY:
		c.gateway.message(from, body)
	case wire.ControlTopic_CONTROL_TOPIC_REMEMBER:
		if err := c.node.memory.Message(from.Address, body); err != nil {
			c.foreign(len(body), err)
		}
	case wire.ControlTopic_CONTROL_TOPIC_ADMIN:
		c.operatorMessage(m.Kind, from, body)
	default:
		c.newer(fmt.Errorf("unknown topic %d", topic))
	}
}

// send seals a message for one process, or for every member if to is zero.
func (c *control) send(to transport.Peer, topic wire.ControlTopic, body []byte, err error) {
	if err != nil {
		c.node.log.Error("control message not sent", "to", to.String(), "err", err)
		return
	}
	b := wire.SealControl(c.node.cfg.Cluster, c.plane.self, topic, body)
	if to.IsZero() {
		err = c.link.Broadcast(b)
	} else {
		err = c.link.Send(transport.Control, to, 0, b)
	}
	if err != nil && !errors.Is(err, transport.ErrDisconnected) && !errors.Is(err, transport.ErrClosed) {
		if n, tell := c.plane.seldom.tell("control message not sent", topic.String(), ""); tell {
			c.node.log.Error("control message not sent", "to", to.String(), "bytes", len(b), "err", err, "count", n)
		}
	}
}

// stepMembers gives the membership one input and does what it says.
func (c *control) stepMembers(in membership.Input) {
	if limit := c.link.MaxPayload() - operatorOverhead; limit != c.limit { // a reconnect or a reload may change it
		c.limit = limit
		c.stepMembers(membership.MessageLimit{Bytes: limit})
	}
	out := c.members.Step(time.Now(), in)
	c.wakes[wakeMembers] = out.WakeAt
	if out.LeaseChanged {
		c.plane.lease.Renew(out.Lease)
	}
	for _, e := range out.Send {
		body, err := membership.Encode(e.Message)
		c.send(transport.Peer{Address: e.To}, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body, err)
	}
	if out.Refused != membership.NotRefused {
		c.plane.counters.add(refusedFor(out.Refused))
	}
	if out.Probe {
		c.gateway.probe()
	}
	if out.TakeLease != nil {
		c.takeLease(*out.TakeLease)
	}
	if out.Changed || len(out.Events) > 0 {
		c.node.events.publish(c.members.View(), out.Events)
	}
	if out.Changed {
		c.view.Store(c.members.View())
		c.viewChanged()
	}
	for _, e := range out.Events {
		c.event(e)
	}
}

// event follows what the membership tells.
func (c *control) event(e membership.Event) {
	c.node.log.Debug("membership", "event", e.String())
	switch e := e.(type) {
	case membership.MemberUp:
		c.node.log.Info("member up", "member", e.Member.Address.String(), "age", e.Member.UpNumber)
		if e.Member.Address == c.self {
			c.node.isUp()
			c.serve(true)
			c.askForRemembered()
		}
	case membership.MemberLeaving:
		if e.Member.Address == c.self {
			c.plane.leaving.Store(true)
			c.serve(false)
		}
	case membership.MemberDowned:
		c.node.log.Warn("member downed", "member", e.Member.Address.String())
		if e.Member.Address != c.self {
			c.plane.peerGone(e.Member.Address, -1, false)
			c.gateway.lostMember(e.Member.Address)
			c.singles.Lost(e.Member.Address)
		}
	case membership.MemberRemoved:
		c.logRemoved(e.Member)
		if e.Member.Address == c.self {
			return
		}
		if s := e.Member.Status; s == membership.Exiting || s == membership.Leaving {
			c.plane.peerLeft(e.Member.Address) // Exiting may have been too short to be seen
		} else {
			c.plane.peerGone(e.Member.Address, -1, false)
			c.gateway.lostMember(e.Member.Address)
			c.singles.Lost(e.Member.Address)
		}
	case membership.UnreachableMember:
		c.node.log.Warn("member unreachable", "member", e.Member.Address.String(), "evidence", e.Evidence.String())
	case membership.ReachableMember:
		c.node.log.Info("member reachable again", "member", e.Member.Address.String())
	case membership.JoinerTooLarge:
		if node := e.Joiner.String(); node != c.tooLarge {
			c.tooLarge = node
			c.node.log.Warn("node not admitted", "joiner", node, "why", e.Reason)
		}
	case membership.StateTooLarge:
		c.node.log.Error("the state of the cluster does not fit a message: nobody can join, leave or be removed until the broker's max_payload is raised",
			"bytes", e.Bytes, "limit", e.Limit)
	case membership.JoinFailed:
		c.node.fail(e.Err)
	case membership.SelfDowned:
		c.node.fail(fmt.Errorf("%w: %s (start the process anew)", ErrDowned, e.Reason))
	case membership.SelfRemoved:
		c.node.left()
	}
}

// viewChanged tells the machines that stand on membership.
func (c *control) viewChanged() {
	v := c.view.Load()
	managed := singleton.View{}
	placed := coordinator.View{Converged: v.Converged}
	for _, m := range v.ByAge {
		s := singlehost.StatusOf(m.Status)
		managed.Members = append(managed.Members, singleton.Member{
			Address: m.Address, Status: s, UpNumber: uint64(m.UpNumber), Roles: m.Roles,
		})
		unreachable := !m.Reachable
		if m.Status == membership.Down && m.MayRun() {
			s, unreachable = singleton.Up, true // its shards are its own until its lease is over
		}
		placed.Members = append(placed.Members, coordinator.Member{
			Address: m.Address, Status: s, Unreachable: unreachable, Hosts: hostmeta.HostsAny(m.Member),
		})
	}
	c.seeds.seen(v)
	c.gateway.membersChanged()
	c.stepManager(managed)
	c.singles.ViewChanged(v)
	c.node.memory.ViewChanged(v)
	if c.coord != nil {
		c.stepCoordinator(placed)
	}
	c.partWithAbsent()
	c.checkExit()
}

// stepManager gives the singleton's manager one input and does what it says.
func (c *control) stepManager(in singleton.Input) {
	out := c.manager.Step(time.Now(), in)
	c.wakes[wakeManager] = out.WakeAt
	for _, e := range out.Send {
		body, err := singleton.Encode(e.Message)
		c.send(transport.Peer{Address: e.To}, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body, err)
	}
	for _, e := range out.Events {
		c.node.log.Debug("coordinator singleton", "state", e.State.String(), "peer", e.Peer.String(), "what", e.What)
	}
	if out.StartInstance {
		c.startCoordinator()
	}
	if out.StopInstance {
		c.coord = nil
		c.wakes[wakeCoord] = time.Time{}
		c.stepManager(singleton.InstanceStopped{})
	}
}

func (c *control) startCoordinator() {
	me, _ := c.view.Load().Member(c.self)
	cfg := c.node.cfg
	coord, err := coordinator.New(coordinator.Config{
		Self: c.self, Term: placement.Term{Number: me.UpNumber, Incarnation: c.self.Incarnation},
		MinMembers: cfg.MinMembers, MaxMoves: cfg.MaxMoves,
		Strategy:          placement.LeastShards{Threshold: cfg.RebalanceThreshold},
		RebalanceInterval: cfg.RebalanceInterval,
		Strategies:        c.node.strategies(),
	})
	if err != nil {
		c.node.fail(fmt.Errorf("start the coordinator: %w", err))
		return
	}
	c.node.log.Info("coordinator starts here", "term", me.UpNumber)
	c.coord = coord
	c.stepManager(singleton.InstanceStarted{})
	c.viewChanged()
}

// stepCoordinator gives the coordinator one input and does what it says.
func (c *control) stepCoordinator(in coordinator.Input) {
	out := c.coord.Step(time.Now(), in)
	c.wakes[wakeCoord] = out.WakeAt
	for _, e := range out.Events {
		c.node.log.Debug("coordinator", "event", e.String())
	}
	for _, e := range out.Send {
		c.sendPlacement(transport.Peer{Address: e.To}, e.Message)
	}
	c.quarantine.look(time.Now())
}
