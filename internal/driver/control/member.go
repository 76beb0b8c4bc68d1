package control

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A Member is the control plane of one member. It drives the state machines of the membership, of
// the coordinator's singleton, of the shard table and of the user's singletons, and the coordinator
// while it runs here. Its methods are called on the control loop, except View, Knows, Traffic,
// Reasons and Pools, which any goroutine may call.
type Member struct {
	sender
	cfg     Config
	setup   Setup
	started bool
	reasons *Reasons
	pools   atomic.Pointer[map[string]int] // of the coordinator here; nil without one

	members  members
	seat     seat
	follower tableFollower
	reports  reports
	loads    loads
	gateway  gateway
	seeds    seeds
	singles  *singlehost.Set

	leaving     bool // the cluster knows that this member is leaving
	exitReady   bool // this member has nothing left to give away
	lastInquiry uint64
	inquiries   map[uint64]func(transport.Address, coordinator.Message) // this process's open questions to other members
}

// New returns a Member that has not begun.
func New(cfg Config, env Env) *Member {
	m := &Member{sender: sender{env: env, cluster: cfg.Cluster, self: cfg.Self}, cfg: cfg, reasons: &Reasons{}}
	m.members.m, m.seat.m, m.follower.m = m, m, m
	m.reports.init(m)
	m.gateway.init(m)
	m.inquiries = map[uint64]func(transport.Address, coordinator.Message){}
	return m
}

// Prepare makes the member's state machines, but starts none of them.
func (m *Member) Prepare(s Setup) (err error) {
	m.setup = s
	if m.members.machine, err = s.Members(m.cfg.Seeds); err != nil {
		return err
	}
	if m.seat.manager, err = singleton.New(singleton.Config{Name: coordinatorSingleton, Self: m.self.Address}); err != nil {
		return err
	}
	m.follower.core = coordinator.NewFollower(s.Hosts)
	m.singles, err = s.Singletons(singletons{m.env, m})
	return err
}

// Begin starts the state machines over an open link. The process begins to join, unless it joins by
// command.
func (m *Member) Begin() {
	m.started = true
	m.ConnState(m.env.Link().State(transport.Control))
	if !m.cfg.JoinByCommand {
		m.members.start(m.cfg.Seeds)
	}
	for _, kind := range m.env.WaitingTypes() { // calls since before Begin
		m.Ask(kind)
	}
}

// ConnState handles a change of the control channel's connection to the broker. Before Begin it
// does nothing.
func (m *Member) ConnState(s transport.State) {
	if m.started {
		m.members.step(membership.ConnState(s))
	}
}

// Tick passes the time to all state machines of the member.
func (m *Member) Tick() {
	now := m.env.Now()
	m.members.tick(now)
	m.seat.tick(now)
	m.follower.tick(now)
	m.seeds.tick(now, m.env.Log)
	m.singles.Tick(now)
	m.reasons.Expire(now)
	m.reports.resend(now)
	m.gateway.tick(now)
	m.checkLeaving()
}

// WakeAt returns when Tick is due.
func (m *Member) WakeAt() time.Time {
	at := m.env.Now().Add(time.Second)
	for _, w := range []time.Time{
		m.members.wakeAt, m.seat.managerAt, m.seat.coreAt, m.seat.termAt, m.follower.wakeAt, m.reports.wakeAt(), m.gateway.wakeAt(), m.singles.WakeAt(),
	} {
		if !w.IsZero() && w.Before(at) {
			at = w
		}
	}
	return at
}

// Receive handles one message of the control channel, which arrived at the given time.
func (m *Member) Receive(msg transport.Message, at time.Time) {
	if msg.Kind == transport.Unreachable && len(msg.Payload) > 0 {
		return // this process lacks a right, which the link has logged; that proves nothing about a member
	}
	if msg.Kind == transport.Unreachable {
		m.members.unreachable(msg.From, msg.Server)
		return
	}
	from, topic, body, err := wire.OpenControl(m.cfg.Cluster, msg.Payload)
	if err == nil && !wire.Vouched(msg, from) {
		err = wire.ErrForged
	}
	if err != nil {
		m.foreign(msg.From, len(msg.Payload), err)
		return
	}
	if err := m.dispatch(from, topic, body, msg, at); errors.Is(err, membership.ErrUnknown) {
		m.newer(err)
	} else if err != nil {
		m.foreign(msg.From, len(body), err)
	}
}

// dispatch passes a message to the handler of its topic. It fails if the body cannot be read.
func (m *Member) dispatch(from transport.Peer, topic wire.ControlTopic, body []byte, of transport.Message, at time.Time) error {
	if !accepts(from, topic) {
		m.forbid(from, topic.String())
		return nil
	}
	switch topic {
	case wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP:
		return m.members.message(from, body, of.Server, at)
	case wire.ControlTopic_CONTROL_TOPIC_SINGLETON:
		msg, err := singleton.Decode(body)
		switch {
		case err != nil:
			return err
		case msg.Name != coordinatorSingleton:
			m.singles.Message(from, msg)
		case !from.Client:
			m.seat.stepManager(singleton.Receive{From: from.Address, Message: msg})
		}
	case wire.ControlTopic_CONTROL_TOPIC_COORDINATOR:
		msg, err := coordinator.Decode(body)
		if err != nil {
			return err
		}
		if from.Client && !asksTable(msg) {
			m.forbid(from, fmt.Sprintf("%T", msg))
			return nil
		}
		m.follower.message(from, msg)
	case wire.ControlTopic_CONTROL_TOPIC_GATEWAY:
		return m.gateway.message(from, body)
	case wire.ControlTopic_CONTROL_TOPIC_REMEMBER:
		return m.env.Remember(from.Address, body)
	case wire.ControlTopic_CONTROL_TOPIC_DIRECT:
		return m.env.Direct(from, body)
	case wire.ControlTopic_CONTROL_TOPIC_ADMIN:
		return m.operatorMessage(of.Kind, from, body)
	default:
		m.newer(unknownTopic(topic))
	}
	return nil
}

// Send sends a control message of another part of the process. An error err of encoding body is
// only logged.
func (m *Member) Send(to transport.Peer, topic wire.ControlTopic, body []byte, err error) {
	m.send(to, topic, body, err)
}

// SendPlacement sends a message of the coordinator's protocol. A message to this process does not
// go through the broker.
func (m *Member) SendPlacement(to transport.Peer, msg coordinator.Message) {
	if to.Address == m.self.Address {
		m.env.Post(func() { m.follower.message(m.self, msg) })
		return
	}
	body, err := coordinator.Encode(msg)
	m.send(to, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body, err)
}

// ToCoordinator sends a message to the member that runs the coordinator, if that member is known.
func (m *Member) ToCoordinator(msg coordinator.Message) {
	if to := m.follower.coordinator(); !to.IsZero() {
		m.SendPlacement(transport.Peer{Address: to}, msg)
	}
}

// View returns the members; nil before there is a view.
func (m *Member) View() *membership.View { return m.members.view.Load() }

// Traffic returns the counts of the membership messages.
func (m *Member) Traffic() *Traffic { return &m.members.traffic }

// Pools returns how many instances each pool should have, by its type, if the coordinator is here. The
// result must not be changed.
func (m *Member) Pools() map[string]int {
	if pools := m.pools.Load(); pools != nil {
		return *pools
	}
	return nil
}

// Coordinator returns the coordinator if it is here, and nil otherwise.
func (m *Member) Coordinator() *coordinator.Coordinator { return m.seat.core }

// Check returns the first broken invariant of the singletons, of the coordinator's manager and of
// the coordinator.
func (m *Member) Check() error {
	if err := m.singles.Check(); err != nil {
		return err
	}
	if err := m.seat.manager.Check(); err != nil || m.seat.core == nil {
		return err
	}
	return m.seat.core.Check()
}

// Reasons returns the reasons why types have no home, as other processes have reported them.
func (m *Member) Reasons() *Reasons { return m.reasons }

// Singletons returns the user's singletons of this process.
func (m *Member) Singletons() *singlehost.Set { return m.singles }

// Knows reports whether a process is a member, as far as this member knows. Any goroutine may call
// it.
func (m *Member) Knows(a transport.Address) bool {
	v := m.View()
	if v == nil {
		return false
	}
	_, ok := v.Member(a)
	return ok
}

// Ask asks for a home for a type's shards, or looks for a singleton's instance. Before Begin it
// does nothing.
func (m *Member) Ask(kind string) {
	if m.started && !m.singles.Want(kind) {
		m.reports.ask(kind)
	}
}

// MoveDone reports that a shard runs here under a new epoch.
func (m *Member) MoveDone(id placement.ShardID, epoch placement.Epoch) {
	if m.singles.Opened(id.Kind, epoch) {
		return
	}
	m.reports.opened(id, epoch)
	m.follower.progressed()
}

// MoveAborted gives up a move of a shard that this process cannot carry out, and reports that to
// the coordinator.
func (m *Member) MoveAborted(id placement.ShardID, epoch placement.Epoch, reason string) {
	if !m.singles.Refused(id.Kind, reason) {
		m.reports.abort(id, epoch, reason)
	}
}

// Progress handles a change of a shard at this member. A new coordinator may wait for the change,
// and so may this member if it is leaving.
func (m *Member) Progress(id placement.ShardID) {
	m.follower.progressed()
	if s := m.env.Shard(id); s != nil {
		if _, ok := s.Held(); ok {
			m.checkLeaving()
		}
	}
}

// HostingChanged registers the process at the coordinator again, because it has stopped hosting a
// type.
func (m *Member) HostingChanged() { m.follower.register() }

// Suspect checks whether a member is still there, because the broker has reported to a lane that
// nobody listens at its address.
func (m *Member) Suspect(a transport.Address) { m.members.suspect(a) }

// LeaseAnswer handles the answer to Env.TakeLease.
func (m *Member) LeaseAnswer(a membership.LeaseAnswer) { m.members.step(a) }

// Join begins to join, through the given seeds if there are any. It does nothing if joining has
// begun.
func (m *Member) Join(seeds []string) error { return m.members.join(seeds) }

// Inquire opens an inquiry, a question to other processes. got receives the answers until Conclude
// is called. The inquiry's number is never 0.
func (m *Member) Inquire(got func(from transport.Address, msg coordinator.Message)) (id uint64) {
	m.lastInquiry++
	m.inquiries[m.lastInquiry] = got
	return m.lastInquiry
}

// Conclude ends an inquiry.
func (m *Member) Conclude(id uint64) { delete(m.inquiries, id) }

// Inquires reports whether the inquiry is open.
func (m *Member) Inquires(id uint64) bool { return m.inquiries[id] != nil }

func (m *Member) answered(id uint64, from transport.Address, msg coordinator.Message) {
	if got := m.inquiries[id]; got != nil {
		got(from, msg)
	}
}

func (m *Member) viewChanged() {
	v := m.View()
	m.seeds.seen(v)
	m.gateway.membersChanged()
	m.seat.managed(v)
	m.singles.ViewChanged(v)
	m.env.RememberView(v)
	m.seat.placed(v)
	m.members.partWithAbsent()
	m.checkLeaving()
}

func (m *Member) lost(a transport.Address) {
	m.env.PeerGone(a)
	m.gateway.lostMember(a)
	m.singles.Lost(a)
}

// TurnAway sends a client the reason why this process keeps no session with it.
func (m *Member) TurnAway(from transport.Peer, why string) {
	m.gateway.refuse(from, why, m.env.Now())
}

// accepted lists the topics that each class of process may send on. Handlers restrict clients
// further: see gateway.message, asksTable and operatorMessage.
var accepted = map[identity.Class][]wire.ControlTopic{
	identity.Member: {
		wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR,
		wire.ControlTopic_CONTROL_TOPIC_GATEWAY, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, wire.ControlTopic_CONTROL_TOPIC_DIRECT,
	},
	identity.Client: {
		wire.ControlTopic_CONTROL_TOPIC_GATEWAY, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR,
		wire.ControlTopic_CONTROL_TOPIC_DIRECT,
	},
	identity.Reader:   {wire.ControlTopic_CONTROL_TOPIC_ADMIN},
	identity.Operator: {wire.ControlTopic_CONTROL_TOPIC_ADMIN},
}

// accepts reports whether a process may send on the topic. Members may also use topics of a later
// release, which are counted.
func accepts(from transport.Peer, topic wire.ControlTopic) bool {
	class := identity.Of(from.Incarnation)
	if _, known := wire.ControlTopic_name[int32(topic)]; !known {
		return class == identity.Member
	}
	return slices.Contains(accepted[class], topic)
}

func asksTable(m coordinator.Message) bool {
	switch m.(type) {
	case coordinator.TableRequest, coordinator.Ask:
		return true
	}
	return false
}

func (m *Member) forbid(from transport.Peer, what string) {
	if n, tell := m.env.CountOf(Forbidden, from.Name); tell {
		m.env.Log(Warn, "message refused: its sender may not send it", "from", from.Address.String(),
			"class", identity.Of(from.Incarnation).String(), "message", what, "count", n)
	}
}
