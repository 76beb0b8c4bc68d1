package membership

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/downing"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/join"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/spread"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A Machine is the membership of one node, as a state machine. It is not safe for concurrent use,
// but the values that its methods return are. [Machine.Check] lists the invariants.
type Machine struct {
	node        *core.Node
	echo        detector.Echo
	peers       detector.Peers
	beats       detector.Heartbeats
	suspicion   detector.Suspicion
	presence    detector.Presence
	voters      lease.Voters
	collectors  lease.Collectors
	votes       lease.Votes
	lease       lease.Lease
	execution   downing.Execution
	indirect    downing.Indirect
	exposure    downing.Exposure
	agreement   downing.Agreement
	unreachable downing.Unreachables
	majority    downing.Majority
	company     downing.Company
	splits      downing.Splits
	fence       downing.Fence
	resolver    downing.Resolver
	broadcaster spread.Broadcaster
	spreader    spread.Spreader
	foundings   join.Foundings
	joiner      join.Joiner
	size        join.Size
	admission   join.Admission
	leader      Leader

	wake      time.Time // WakeAt of the last step
	exitReady bool
	entered   bool            // the membership has begun
	swept     *gossip.Summary // the summary of the last sweep
}

// New returns a machine, or an error that names the invalid setting.
func New(config core.Config) (*Machine, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{node: core.NewNode(config)}
	n := m.node
	m.echo = detector.Echo{Base: &n.Base}
	m.peers = detector.Peers{Node: n, Echo: &m.echo, Known: make(map[transport.Address]*detector.Peer)}
	m.beats = detector.Heartbeats{Node: n, Echo: &m.echo, Peers: &m.peers, Threshold: detector.PhiInverse(config.PhiThreshold)}
	m.suspicion = detector.Suspicion{Node: n, Echo: &m.echo, Peers: &m.peers, Beats: &m.beats}
	m.presence = detector.Presence{Node: n, Peers: &m.peers, Beats: &m.beats}
	m.voters = lease.Voters{Node: n}
	m.collectors = lease.Collectors{Node: n, Echo: &m.echo, Peers: &m.peers}
	m.votes = lease.Votes{Node: n, Echo: &m.echo, Peers: &m.peers, Beats: &m.beats, Voters: &m.voters, Collectors: &m.collectors}
	m.lease = lease.Lease{
		Node: n, Echo: &m.echo, Presence: &m.presence, Peers: &m.peers, Beats: &m.beats, Voters: &m.voters,
		Collectors: &m.collectors, Votes: &m.votes,
		Until: time.Time{}.Add(1), // long past
		Met:   make(map[transport.Address]time.Time),
	}
	m.execution = downing.Execution{Node: n}
	m.indirect = downing.Indirect{Node: n, Peers: &m.peers, Voters: &m.voters}
	m.exposure = downing.Exposure{Node: n, Echo: &m.echo, Peers: &m.peers, Voters: &m.voters}
	m.agreement = downing.Agreement{Node: n, Voters: &m.voters}
	m.unreachable = downing.Unreachables{Node: n, Agreement: &m.agreement}
	m.majority = downing.Majority{
		Node: n, Echo: &m.echo, Beats: &m.beats, Voters: &m.voters, Execution: &m.execution, Indirect: &m.indirect,
		Exposure: &m.exposure, Agreement: &m.agreement, Unreachable: &m.unreachable,
	}
	m.company = downing.Company{Node: n, Peers: &m.peers, Beats: &m.beats, Voters: &m.voters, Execution: &m.execution, Majority: &m.majority}
	m.splits = downing.Splits{
		Node: n, Voters: &m.voters, Lease: &m.lease, Execution: &m.execution, Indirect: &m.indirect, Unreachable: &m.unreachable,
	}
	m.fence = downing.Fence{Node: n, Echo: &m.echo, Voters: &m.voters, Lease: &m.lease}
	m.resolver = downing.Resolver{
		Node: n, Echo: &m.echo, Lease: &m.lease, Execution: &m.execution, Indirect: &m.indirect, Agreement: &m.agreement,
		Unreachable: &m.unreachable, Majority: &m.majority, Company: &m.company, Splits: &m.splits, Fence: &m.fence,
	}
	m.resolver.ResetDowning()
	m.broadcaster = spread.Broadcaster{Node: n, Collectors: &m.collectors}
	m.spreader = spread.Spreader{Node: n, Broadcaster: &m.broadcaster}
	m.foundings = join.Foundings{Node: n}
	m.joiner = join.Joiner{Node: n, Foundings: &m.foundings}
	m.size = join.Size{Node: n}
	m.admission = join.Admission{Node: n, Voters: &m.voters, Beats: &m.beats, Execution: &m.execution, Size: &m.size}
	m.leader = Leader{Node: n, voters: &m.voters, fence: &m.fence}
	return m, nil
}

// Step handles one input. now should never decrease: if it is lower than in an earlier call, Step
// uses the highest now so far.
func (m *Machine) Step(now time.Time, in core.Input) core.Output {
	m.node.Out = core.Output{Lease: m.lease.Until}
	if m.node.Phase == core.Ended {
		return m.node.Out
	}
	m.advance(now)
	before := m.node.Gossip
	m.node.Own = false
	m.take(in)
	m.run()
	m.spreader.Spread(before)
	m.node.Publish()
	m.lease.RenewLease()
	if m.node.Phase == core.Ended {
		m.node.Out.WakeAt = time.Time{}
	}
	m.wake = m.node.Out.WakeAt
	if invariant.Enabled {
		if err := m.Check(); err != nil {
			invariant.Failf("after %T: %v", in, err)
		}
	}
	return m.node.Out
}

// View returns the present view of the cluster, without copying.
func (m *Machine) View() *core.View { return m.node.Shown }

// Lease returns the time until which this node may start turns and send answers. That is the
// earlier of two times: SelfHeartbeatTimeout after the node sent the last echo that came back, and
// QuorumTimeout after the node's last contact with a majority. The zero time means that the lease
// has no end, because no other node has ever been Up in this cluster. A time in the past means that
// no turn may start, as at a node that is not a member.
func (m *Machine) Lease() time.Time { return m.lease.Until }

func (m *Machine) advance(now time.Time) {
	if m.node.Now.IsZero() || now.After(m.node.Now) {
		m.node.Now = now
	}
	if !m.wake.IsZero() && m.node.Now.Sub(m.wake) > m.node.Config.PauseThreshold {
		m.clearEvidence(false)
	}
}

func (m *Machine) take(in core.Input) {
	switch in := in.(type) {
	case core.Start:
		m.joiner.OnStart()
	case core.Tick:
	case core.Receive:
		m.onReceive(in)
	case core.Unreachable:
		m.onUnreachable(in)
	case core.Suspected:
		m.onSuspected(in.Peer)
	case core.Asked:
		m.peers.Asked(in)
	case core.ConnState:
		m.onConnState(in)
	case core.MessageLimit:
		m.size.OnMessageLimit(in)
	case core.Vacant:
		m.joiner.Progress.Vacant = m.node.Phase == core.Searching
	case core.Claimed:
		m.joiner.OnClaimed(in)
	case core.FoundingAnswer:
		m.foundings.OnFounding(in)
	case core.Paused:
		m.clearEvidence(false)
	case core.Leave:
		m.onLeave()
	case core.ExitReady:
		m.exitReady = true
	case core.DownNode:
		m.execution.OnDownNode(in.Node)
	case core.Undeliverable:
		m.onUndeliverable(in.Peer)
	case core.LeaseAnswer:
		m.splits.OnLeaseAnswer(in)
	default:
		invariant.Failf("membership input %T is unknown", in)
	}
}

func (m *Machine) run() {
	if m.node.Phase == core.Searching || m.node.Phase == core.Asking {
		m.joiner.RunJoining()
	}
	m.noteEntry()
	m.echo.RunEcho()
	if m.node.Phase != core.Joined {
		return
	}
	m.runLeaving()
	m.sweep()
	m.suspicion.RunDetection()
	m.resolver.RunDowning()
	m.suspicion.ReportVouches()
	m.leader.runLeader()
	if m.node.Phase != core.Joined {
		return
	}
	m.admission.RunAdmission()
	m.foundings.RunFounding()
	m.spreader.RunGossip()
	m.presence.RunAlive()
	m.votes.RunVotes()
}

// onReceive passes a message to its handler. If the sender is Down or removed, most kinds of
// messages are answered with Removal instead, so that the sender stops.
func (m *Machine) onReceive(in core.Receive) {
	if m.node.Phase == core.Idle || in.Message == nil {
		return
	}
	switch msg := in.Message.(type) {
	case message.Hello:
		if m.node.Phase == core.Searching || m.node.Phase == core.Asking {
			m.joiner.OnHelloAsJoiner(in.From, msg)
		} else {
			m.admission.OnHello(in.From, msg)
		}
		return
	case message.Echo:
		m.onEcho(in.From, msg)
		return
	case message.HelloAck:
		m.joiner.OnHelloAck(in.From, msg)
		return
	case message.Welcome:
		m.joiner.OnWelcome(in.From, msg)
		return
	case message.JoinRefused:
		m.joiner.OnJoinRefused(in.From, msg)
		return
	case message.Gossip:
		if m.node.Phase == core.Searching || m.node.Phase == core.Asking {
			m.joiner.OnBroadcastWelcome(msg)
			return
		}
	case message.Alive:
		if m.node.Phase == core.Searching {
			m.joiner.OnAliveAsJoiner(in.From)
			return
		}
	case message.Removal:
		m.onRemoval(in.From, msg)
		return
	}
	if m.node.Phase != core.Joined || in.From == m.node.Config.Self || m.outcast(in.From) {
		return
	}
	m.peers.Heard(in.From)
	switch msg := in.Message.(type) {
	case message.Join:
		m.admission.OnJoin(in.From, msg)
	case message.Gossip:
		m.spreader.OnGossip(in, msg)
	case message.Status:
		m.spreader.OnStatus(in.From, msg)
	case message.Heartbeat:
		m.beats.OnHeartbeat(in, msg)
	case message.HeartbeatAck:
		m.beats.OnHeartbeatAck(in, msg)
	case message.Alive:
		m.presence.OnAlive(in, msg)
	case message.Vote:
		m.votes.OnVote(in, msg)
	case message.VoteAck:
		m.votes.OnVoteAck(in.From, msg)
	}
	m.broadcaster.LeaderSpoke(in.From)
}

// outcast reports whether the node is Down or removed; if so, it sends Removal.
func (m *Machine) outcast(node transport.Address) bool {
	tomb, removed := m.node.Gossip.Tombstone(node)
	if r, ok := m.node.Gossip.Member(node); !removed && (!ok || r.Status != gossip.Down) {
		return false
	}
	m.node.Send(node, message.Removal{Target: message.TargetOf(node), Left: tomb.Left})
	m.node.Refuse(core.RefusedOutcast)
	return true
}

// clearEvidence drops all evidence against others, because the cause may have been this node's
// connection or pause.
func (m *Machine) clearEvidence(opened bool) {
	m.peers.DropEvidence(opened)
	m.collectors.Forgive()
	m.resolver.ResetDowning()
	if m.beats.AskAll {
		m.lease.Doubt()
	}
	if m.node.Phase == core.Joined {
		m.suspicion.RetractAll()
	}
}

func (m *Machine) onUnreachable(in core.Unreachable) {
	if m.node.Phase == core.Searching || m.node.Phase == core.Asking {
		m.joiner.OnGone(in.Peer, in.Server == m.node.Conn.Server)
	}
	if m.node.Phase == core.Joined && in.Server == m.node.Conn.Server {
		m.beats.NotListening(in.Peer)
	}
}

// onSuspected sends a member a heartbeat at once.
func (m *Machine) onSuspected(node transport.Address) {
	r, ok := m.node.Gossip.Member(node)
	if ok && m.node.Phase == core.Joined && r.Status != gossip.Down && node != m.node.Config.Self {
		m.beats.Suspect(node)
	}
}

// onConnState drops all evidence after a reconnection: the evidence came through the old
// connection, and others may reconnect too.
func (m *Machine) onConnState(in core.ConnState) {
	fresh := in.Connected && (!m.node.Conn.Connected || m.node.Conn.Server != in.Server)
	m.node.Conn, m.node.Mark = in, message.MarkOf(in.Server)
	if fresh || !in.Connected { // earlier messages may have gone through a connection that this node does not know yet
		m.echo.ResetEcho()
	}
	if !fresh {
		return
	}
	moved := m.exposure.NoteExposed(in.Server)
	m.presence.At = m.node.Now
	m.joiner.HelloAgain()
	m.clearEvidence(true)
	if moved {
		m.lease.Moved()
	}
}

func (m *Machine) onEcho(from transport.Address, msg message.Echo) {
	if m.node.Phase != core.Joined || from != m.node.Config.Self || !m.echo.AwaitsEcho(msg.Seq) {
		return
	}
	if !m.echo.EchoAlive() {
		m.clearEvidence(false) // nothing came through, so no member could be heard
		m.echo.NoteMuffled()
	}
	m.echo.EchoReturned(msg.Seq)
}

func (m *Machine) noteEntry() {
	if m.node.Phase != core.Joined || m.entered {
		return
	}
	m.entered = true
	m.joiner.ForgetJoining()
	m.peers.Cleared = m.node.Now
	m.company.Last = m.node.Now
}

func (m *Machine) sweep() {
	if now := m.node.Local().Summary; m.swept != now {
		m.swept = now
		m.resolver.ForgetRemoved()
		m.votes.ForgetBallots()
	}
}

// onRemoval handles the news that this incarnation was removed. This incarnation never becomes a
// member again.
func (m *Machine) onRemoval(from transport.Address, msg message.Removal) {
	if msg.Target != message.TargetOf(m.node.Config.Self) {
		m.node.Refuse(core.RefusedTarget)
		return
	}
	if m.node.Phase != core.Joined {
		return
	}
	m.node.EndRemoved(msg.Left, from, from.Name+" says that this node was downed and removed")
}

// State returns the gossiped state if this node is a member, and nil otherwise. A state never
// changes, so if two calls return the same pointer, the state is the same. State is for simulations
// and tests; other callers use the [View].
func (m *Machine) State() *gossip.State {
	if m.node.Phase != core.Joined {
		return nil
	}
	return m.node.Gossip
}

// Check returns an error naming the violated invariant:
//  1. The gossiped state is well formed (see gossip.State.CheckUnder); only Down
//     members are fenced.
//  2. A member is in its own gossiped state, not Down, and has seen it.
//  3. The view shows the gossiped state.
//  4. A lease is without end if no other node has ever been Up; any other lease ends within
//     SelfHeartbeatTimeout.
func (m *Machine) Check() error {
	if m.node.Phase != core.Joined {
		return nil
	}
	if err := m.node.Gossip.CheckUnder(m.node.Rule()); err != nil {
		return fmt.Errorf("invariant 1: %w", err)
	}
	self, ok := m.node.Gossip.Member(m.node.Config.Self)
	if !ok || self.Status == gossip.Down || !m.node.Gossip.SeenBy(m.node.Config.Self) {
		return fmt.Errorf("invariant 2: this node, %v, is %v or has not seen its own state %v", m.node.Config.Self, self.Status, m.node.Gossip)
	}
	if m.node.Published != m.node.Gossip || len(m.node.Shown.ByAddress) != len(m.node.Gossip.Members) || m.node.Shown.SelfStatus != self.Status {
		return fmt.Errorf("invariant 3: view %+v does not show %v", m.node.Shown, m.node.Gossip)
	}
	if m.lease.Until.After(m.node.Now.Add(m.node.Config.SelfHeartbeatTimeout)) {
		return fmt.Errorf("invariant 4: the lease ends in %v, later than SelfHeartbeatTimeout %v", m.lease.Until.Sub(m.node.Now), m.node.Config.SelfHeartbeatTimeout)
	}
	if n := m.node.Gossip.UpCounter; n > 1 && m.lease.Until.IsZero() {
		return fmt.Errorf("invariant 4: the lease has no end, but %d nodes have been Up", n)
	}
	return nil
}

// onLeave makes this node Leaving. A node not yet a member stops at once.
func (m *Machine) onLeave() {
	switch m.node.Phase {
	case core.Idle, core.Searching, core.Asking:
		m.node.Emit(core.SelfRemoved{})
		m.node.End()
	case core.Joined:
		if r := m.node.Self(); r.Status.CanBecome(gossip.Leaving) {
			m.node.Change(func(g *gossip.State) { g.SetStatus(r, gossip.Leaving) })
		}
	case core.Ended:
	}
}

func (m *Machine) runLeaving() {
	if r := m.node.Self(); r.Status == gossip.Leaving && m.exitReady && !r.ExitReady {
		r.ExitReady = true
		m.node.Change(func(g *gossip.State) { g.SetMember(r) })
	}
}

// Preform makes an idle machine a member of a given cluster, without joining and without events. It
// replaces [Start].
func (m *Machine) Preform(now time.Time, g *gossip.State) {
	if m.node.Phase != core.Idle {
		invariant.Failf("preform a machine that has been started")
	}
	m.node.Now = now
	m.node.Gossip = g
	m.node.BecomeMember()
	m.noteEntry()
	m.node.MemberSince = now.Add(-detector.AliveEarly)
	m.node.Published = g
	m.node.Shown = m.node.NewView()
	m.lease.RenewLease()
}

// onUndeliverable quarantines a member that has lost messages, because the member cannot know which
// messages it has lost. A quarantined member stays unreachable until the downing strategy decides.
// When the member learns of the quarantine, it stops, and its next incarnation may join.
func (m *Machine) onUndeliverable(node transport.Address) {
	if m.node.Phase != core.Joined || node == m.node.Config.Self {
		return
	}
	r, ok := m.node.Gossip.Member(node)
	if !ok || r.Status == gossip.Down || r.Quarantined {
		return
	}
	r.Quarantined = true
	m.node.Change(func(g *gossip.State) { g.SetMember(r) })
}
