package membership

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A Machine is one node's membership. It is not safe for concurrent use; what it
// returns is. See [Machine.Check] for its invariants.
type Machine struct {
	config Config
	random *rand.Rand
	// strategy is the way of downing.
	strategy splitbrain.Strategy
	now      time.Time
	out      Output
	wake     time.Time // the WakeAt of the last step
	phase    phase
	conn     ConnState
	limit    int                // bytes of a message; 0: any
	mark     message.ServerMark // of conn.Server
	// state is the gossiped state of a member, nil before. It is replaced, never changed.
	state *gossip.State
	// own: this step made a version of its own, that nobody else can have.
	own         bool
	published   *gossip.State // what view shows
	conclusions gossip.Local  // of this node, from state
	view        *View
	lease       leaseState

	join      joining
	spreading spreading
	detect    detection
	downing   downingState
	voting    voting
	admission admission
	exitReady bool
	led       *gossip.State // for which the leader's duties are done
	// unconverged is since when the view has not converged; zero: it has.
	unconverged time.Time
}

// phase is how far this node is.
type phase uint8

const (
	idle      phase = iota // before Start
	searching              // looks for members
	asking                 // has asked one of them
	member                 // is in the gossiped state
	ended                  // needs nothing more
)

// New returns a machine, or an error that names the setting that makes no sense.
func New(config Config) (*Machine, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	m := &Machine{
		config: config,
		random: rand.New(rand.NewPCG(config.Seed, config.Self.Incarnation)),
		view:   &View{Self: config.Self},
	}
	m.lease.until = time.Time{}.Add(1) // long past
	m.strategy = splitbrain.NewStrategy(config.Downing, config.QuorumSize, config.KeepOldestAlone)
	m.detect = newDetection(config.PhiThreshold)
	m.downing.reset()
	m.downing.met = make(map[transport.Address]time.Time)
	return m, nil
}

// Step takes one input in. Now is monotonic: an earlier one than before counts
// as the same.
func (m *Machine) Step(now time.Time, in Input) Output {
	m.out = Output{Lease: m.lease.until}
	if m.phase == ended {
		return m.out
	}
	m.advance(now)
	before := m.state
	m.own = false
	m.take(in)
	m.run()
	m.spread(before)
	m.publish()
	m.renewLease()
	if m.phase == ended {
		m.out.WakeAt = time.Time{}
	}
	m.wake = m.out.WakeAt
	if invariant.Enabled {
		if err := m.Check(); err != nil {
			invariant.Failf("after %T: %v", in, err)
		}
	}
	return m.out
}

// View returns the cluster as it is now. It is cheap.
func (m *Machine) View() *View { return m.view }

// Lease is until when turns may start here and answers may leave: the time the
// last returned echo was sent plus LeaseEcho, or when a majority was heard plus
// LeaseMajority, whichever is first. The zero time means without end: there is
// no other member. A node that is not a member, or none any more, gets a time
// that is past.
func (m *Machine) Lease() time.Time { return m.lease.until }

// advance moves the clock. A step that comes long after the time for which it
// was asked proves that this process stood still.
func (m *Machine) advance(now time.Time) {
	if m.now.IsZero() || now.After(m.now) {
		m.now = now
	}
	if !m.wake.IsZero() && m.now.Sub(m.wake) > m.config.PauseThreshold {
		m.clearEvidence()
	}
}

func (m *Machine) take(in Input) {
	switch in := in.(type) {
	case Start:
		m.onStart()
	case Tick:
	case Receive:
		m.onReceive(in)
	case Unreachable:
		m.onUnreachable(in)
	case ConnState:
		m.onConnState(in)
	case MessageLimit:
		m.onMessageLimit(in)
	case Vacant:
		m.join.vacant = m.phase == searching
	case Paused:
		m.clearEvidence()
	case Leave:
		m.onLeave()
	case ExitReady:
		m.exitReady = true
	case DownNode:
		m.onDownNode(in.Node)
	case Undeliverable:
		m.onUndeliverable(in.Peer)
	case LeaseAnswer:
		m.onLeaseAnswer(in)
	case Shutdown:
		m.end()
	default:
		invariant.Failf("membership input %T is unknown", in)
	}
}

// run does what is due. Every part says when it wants to be run again.
func (m *Machine) run() {
	if m.phase == searching || m.phase == asking {
		m.runJoining()
	}
	m.runEcho()
	if m.phase != member {
		return
	}
	m.runLeaving()
	m.runDetection()
	m.runDowning()
	m.reportWords()
	m.runLeader()
	if m.phase != member {
		return
	}
	m.runAdmission()
	m.runGossip()
	m.runAlive()
	m.runVotes()
}

// onReceive sorts messages. What comes from a node that is removed, or will be,
// is answered with Removal, so that it stops.
func (m *Machine) onReceive(in Receive) {
	if m.phase == idle || in.Message == nil {
		return
	}
	switch msg := in.Message.(type) {
	case message.Hello:
		m.onHello(in.From, msg)
		return
	case message.Echo:
		m.onEcho(in.From, msg)
		return
	case message.HelloAck:
		m.onHelloAck(in.From, msg)
		return
	case message.Welcome:
		m.onWelcome(in.From, msg)
		return
	case message.JoinRefused:
		m.onJoinRefused(in.From, msg)
		return
	case message.Gossip:
		if m.phase == searching || m.phase == asking {
			m.onBroadcastWelcome(msg)
			return
		}
	case message.Alive:
		if m.phase == searching {
			m.onAliveAsJoiner(in.From)
			return
		}
	case message.Removal:
		m.onRemoval(in.From, msg)
		return
	}
	if m.phase != member || in.From == m.config.Self || m.outcast(in.From) {
		return
	}
	m.heard(in.From)
	switch msg := in.Message.(type) {
	case message.Join:
		m.onJoin(in.From, msg)
	case message.Gossip:
		m.onGossip(in, msg)
	case message.Status:
		m.onStatus(in.From, msg)
	case message.Heartbeat:
		m.onHeartbeat(in, msg)
	case message.HeartbeatAck:
		m.onHeartbeatAck(in, msg)
	case message.Alive:
		m.onAlive(in, msg)
	case message.Vote:
		m.onVote(in, msg)
	case message.VoteAck:
		m.onVoteAck(in.From, msg)
	}
	m.leaderSpoke(in.From)
}

// outcast reports whether the node is Down or removed, and tells the node.
func (m *Machine) outcast(node transport.Address) bool {
	tomb, removed := m.state.Tombstone(node)
	if r, ok := m.state.Member(node); !removed && (!ok || r.Status != gossip.Down) {
		return false
	}
	m.send(node, message.Removal{Target: message.TargetOf(node), Left: tomb.Left})
	m.refuse(RefusedOutcast)
	return true
}

// onRemoval: others have removed this incarnation, and it cannot come back.
func (m *Machine) onRemoval(from transport.Address, msg message.Removal) {
	if msg.Target != message.TargetOf(m.config.Self) {
		m.refuse(RefusedTarget)
		return
	}
	if m.phase != member {
		return
	}
	m.endRemoved(msg.Left, from, from.Name+" says that this node was judged dead and removed")
}

// endRemoved ends a member that others have removed. Left at one that is not leaving
// is no end in order: nobody here waits for it.
func (m *Machine) endRemoved(left bool, by transport.Address, reason string) {
	if r, ok := m.state.Member(m.config.Self); left && (!ok || r.Status != gossip.Leaving && r.Status != gossip.Exiting) {
		left, reason = false, by.Name+" says that this node left, but it did not"
	}
	m.endMember(left, reason)
}

// endMember ends a member: it left in order, or was downed for that reason.
func (m *Machine) endMember(left bool, reason string) {
	m.publish() // what led here comes first
	if left {
		m.emit(SelfRemoved{})
	} else {
		m.emit(SelfDowned{Reason: reason})
	}
	m.end()
}

func (m *Machine) end() {
	m.phase = ended
	v := *m.view
	v.SelfStatus = gossip.Removed
	m.view, m.out.Changed = &v, true
}

// update makes a new version of the gossiped state.
func (m *Machine) update(change func(*gossip.State)) {
	m.state = m.state.ChangedBy(m.config.Self, change)
	m.own = true
}

// self returns this node's own record.
func (m *Machine) self() gossip.Member {
	i := m.local().Self
	if i < 0 {
		invariant.Failf("%v is not in its own state %v", m.config.Self, m.state)
	}
	return m.state.Members[i]
}

// send does nothing without a connection: the broker would refuse.
func (m *Machine) send(to transport.Address, msg message.Message) {
	if m.conn.Connected {
		m.out.Send = append(m.out.Send, Envelope{To: to, Message: msg})
	}
}

func (m *Machine) broadcast(msg message.Message) {
	if m.conn.Connected {
		m.out.Send = append(m.out.Send, Envelope{Broadcast: true, Message: msg})
	}
}

func (m *Machine) emit(e Event) { m.out.Events = append(m.out.Events, e) }

// wakeAt asks for a step at t at the latest.
func (m *Machine) wakeAt(t time.Time) {
	if m.out.WakeAt.IsZero() || t.Before(m.out.WakeAt) {
		m.out.WakeAt = t
	}
}

// due reports whether the timer has run out, starts it again if so, and asks to be
// woken for it. A zero timer has run out.
func (m *Machine) due(timer *time.Time, interval time.Duration) bool {
	ran := !m.now.Before(*timer)
	if ran {
		*timer = m.now.Add(interval)
	}
	m.wakeAt(*timer)
	return ran
}
