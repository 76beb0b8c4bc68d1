package control

import (
	"errors"
	"fmt"
	"slices"
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

// A Member is the control plane of one member: the membership, the coordinator's singleton,
// the coordinator while it is here, the table, and the singletons of the user. Its methods
// are called on the control loop, but for View, Knows, Traffic and Reasons, which any goroutine
// may call.
type Member struct {
	sender
	cfg     Config
	setup   Setup
	started bool
	reasons *Reasons

	members  members
	seat     seat
	follower tableFollower
	reports  reports
	gateway  gateway
	seeds    seeds
	singles  *singlehost.Set

	leaving     bool // the cluster knows that this member leaves
	exitReady   bool // nothing is left to give away
	lastInquiry uint64
	inquiries   map[uint64]func(transport.Address, coordinator.Message) // open questions of this process to other members
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

// Prepare makes the machines; nothing runs yet.
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

// Begin starts the machines over an open link. The process joins, unless it joins by
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

// ConnState follows the control channel's connection. It does nothing before Begin.
func (m *Member) ConnState(s transport.State) {
	if m.started {
		m.members.step(membership.ConnState(s))
	}
}

// Tick gives all machines the time.
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

// Receive handles one message of the control channel, which came at a time.
func (m *Member) Receive(msg transport.Message, at time.Time) {
	if msg.Kind == transport.Unreachable && len(msg.Payload) > 0 {
		return // a right is missing, which the link has logged: it proves nothing about a member
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

// dispatch brings the body of a message to the part that it is for. An error is that of
// reading it.
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

// Send sends a message of another part of the process; err is that of encoding it.
func (m *Member) Send(to transport.Peer, topic wire.ControlTopic, body []byte, err error) {
	m.send(to, topic, body, err)
}

// SendPlacement sends a message of the coordinator's protocol. One to this process takes the
// short way.
func (m *Member) SendPlacement(to transport.Peer, msg coordinator.Message) {
	if to.Address == m.self.Address {
		m.env.Post(func() { m.follower.message(m.self, msg) })
		return
	}
	body, err := coordinator.Encode(msg)
	m.send(to, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body, err)
}

// ToCoordinator sends a message to the coordinator, if it is known which member runs it.
func (m *Member) ToCoordinator(msg coordinator.Message) {
	if to := m.follower.coordinator(); !to.IsZero() {
		m.SendPlacement(transport.Peer{Address: to}, msg)
	}
}

// View returns the members; nil before there is a view.
func (m *Member) View() *membership.View { return m.members.view.Load() }

// Traffic returns the counts of the membership's messages.
func (m *Member) Traffic() *Traffic { return &m.members.traffic }

// Coordinator returns the coordinator while it is here; nil else.
func (m *Member) Coordinator() *coordinator.Coordinator { return m.seat.core }

// Check returns the first broken invariant of the coordinator and of its singleton.
func (m *Member) Check() error {
	if err := m.singles.Check(); err != nil {
		return err
	}
	if err := m.seat.manager.Check(); err != nil || m.seat.core == nil {
		return err
	}
	return m.seat.core.Check()
}

// Reasons returns why types have no home, as others have said.
func (m *Member) Reasons() *Reasons { return m.reasons }

// Singletons returns the singletons of the process.
func (m *Member) Singletons() *singlehost.Set { return m.singles }

// Knows reports whether a process is a member. It may be called by any goroutine.
func (m *Member) Knows(a transport.Address) bool {
	v := m.View()
	if v == nil {
		return false
	}
	_, ok := v.Member(a)
	return ok
}

// Ask looks for a home of a type's shards, or for a singleton's instance. It does nothing
// before Begin.
func (m *Member) Ask(kind string) {
	if m.started && !m.singles.Want(kind) {
		m.reports.ask(kind)
	}
}

// MoveDone notes that a shard runs here under a new epoch.
func (m *Member) MoveDone(id placement.ShardID, epoch placement.Epoch) {
	if m.singles.Opened(id.Kind, epoch) {
		return
	}
	m.reports.opened(id, epoch)
	m.follower.progressed()
}

// MoveAborted gives a move up that a shard here cannot make.
func (m *Member) MoveAborted(id placement.ShardID, epoch placement.Epoch, reason string) {
	if !m.singles.Refused(id.Kind, reason) {
		m.reports.abort(id, epoch, reason)
	}
}

// Progress reports a change of a shard that others may wait for.
func (m *Member) Progress(id placement.ShardID) {
	m.follower.progressed()
	if s := m.env.Shard(id); s != nil {
		if _, ok := s.Held(); ok {
			m.checkLeaving()
		}
	}
}

// HostingChanged registers the process anew: it hosts a type no more.
func (m *Member) HostingChanged() { m.follower.register() }

// Bounced notes that nobody listens at an address, as the broker's server says.
func (m *Member) Bounced(a transport.Address, server string) { m.members.bounced(a, server) }

// LeaseAnswer takes the answer to Env.TakeLease.
func (m *Member) LeaseAnswer(a membership.LeaseAnswer) { m.members.step(a) }

// Join begins joining, through the given seeds if there are any. It does nothing once
// joining has begun.
func (m *Member) Join(seeds []string) error { return m.members.join(seeds) }

// Inquire opens an inquiry, whose answers go to got until Conclude. Its number is not 0.
func (m *Member) Inquire(got func(from transport.Address, msg coordinator.Message)) (id uint64) {
	m.lastInquiry++
	m.inquiries[m.lastInquiry] = got
	return m.lastInquiry
}

// Conclude ends an inquiry.
func (m *Member) Conclude(id uint64) { delete(m.inquiries, id) }

// Inquires reports whether an inquiry is open.
func (m *Member) Inquires(id uint64) bool { return m.inquiries[id] != nil }

// answered brings an answer to its inquiry. Late ones are dropped.
func (m *Member) answered(id uint64, from transport.Address, msg coordinator.Message) {
	if got := m.inquiries[id]; got != nil {
		got(from, msg)
	}
}

// viewChanged tells the parts that stand on membership.
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

// lost notes that a member was downed.
func (m *Member) lost(a transport.Address) {
	m.env.PeerGone(a)
	m.gateway.lostMember(a)
	m.singles.Lost(a)
}

// TurnAway tells a client that this process keeps no session with it.
func (m *Member) TurnAway(from transport.Peer, why string) {
	m.gateway.refuse(from, why, m.env.Now())
}

// accepted are the topics on which each class of process may send to a member. What a client may
// say on them is narrowed further where they are read: to the hello, the probe and the goodbye
// of gateway.message, to the search for a singleton, and to the questions of asksTable.
// Operators' requests are divided in operators.message.
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

// accepts reports whether a process may send on the topic. Topics of a later release are accepted
// from members, which are trusted, and counted.
func accepts(from transport.Peer, topic wire.ControlTopic) bool {
	class := identity.Of(from.Incarnation)
	if _, known := wire.ControlTopic_name[int32(topic)]; !known {
		return class == identity.Member
	}
	return slices.Contains(accepted[class], topic)
}

// asksTable reports whether a message of the coordinator's protocol is one that a client sends.
func asksTable(m coordinator.Message) bool {
	switch m.(type) {
	case coordinator.TableRequest, coordinator.Ask:
		return true
	}
	return false
}

// forbid counts a message that its sender's class may not send.
func (m *Member) forbid(from transport.Peer, what string) {
	if n, tell := m.env.CountOf(Forbidden, from.Name); tell {
		m.env.Log(Warn, "message refused: its sender may not send it", "from", from.Address.String(),
			"class", identity.Of(from.Incarnation).String(), "message", what, "count", n)
	}
}
