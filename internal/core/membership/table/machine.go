package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A Machine is one node's membership by a table, without I/O. It is not safe for concurrent use;
// its results are. See [Machine.Check] for its invariants.
type Machine struct {
	core.Base
	echo   detector.Echo
	table  *rows.Table // the latest that is known, nil before the first read
	row    int         // the index of the own row, or -1
	peers  map[transport.Address]*peer
	client client
	stand  stand
	lease  lease
	deaths map[transport.Address]*death
	probes probes
	health health
	joiner joiner
	admits admits
	place  string // this node's server as rows name it: its lasting name, if any, and its instance

	seq       uint64    // of stands, probes and indirect probes
	wake      time.Time // the WakeAt of the last step
	leaving   bool      // Leave was asked for
	exitReady bool
	limit     int // bytes of a message; 0 means none
	// unmet means that this node has reconnected while it was a member, and unmetTo is the version
	// that it knew then.
	unmet   bool
	unmetTo uint64
	noted   []transport.Address // members with possible evidence against them, sorted
	pasts   []past
	// known records when this node adopted its last versions. forgiven is when it last dropped its
	// conclusions from silence.
	known    []knownAt
	forgiven time.Time
	ended    time.Time // the latest proof that fenced members or those that left may have given
	stale    bool      // the view has to be made again
	expires  time.Time // when a suspicion in the view ceases to count
}

// A peer holds what this node has observed of another node.
type peer struct {
	heard  time.Time // when its last message arrived
	silent bool      // unheard for AgreedAfter: see runSilence
	proven time.Time // when the two last exchanged a stand and its answer; see fence.go
	met    time.Time // see Machine.metSince; zero means not
	passed bool      // it did not answer this node as a joiner
	latest uint64    // the highest version that it named

	answers []answer // the last answers to its stands
	stood   stood
	server  message.ServerMark // through which it sent its stand or probe with the highest number
	seq     uint64             // that number
	left    bool               // left out of unanimity, being gone
	got     uint64             // the number of its last answer

	touch       time.Time // when it is touched next
	absent      time.Time // since when the broker says that nobody listens; zero means it does not
	absentLast  time.Time
	lost        report    // the first such report that answers a message sent lostWait later; see fencedAt
	absentAgain bool      // reported at least twice
	missing     time.Time // like absent, but kept from server to server
	unbounced   int       // touches since the broker's last report
	elsewhere   detector.Elsewhere

	probe probe
}

// A report is the broker's answer that nobody listens for a peer. answered is when the answer came.
// The message to which it is the answer was sent after the time asked.
type report struct{ asked, answered time.Time }

// isBehind records through which broker instance the peer has sent a stand or probe.
func (p *peer) isBehind(server message.ServerMark, seq uint64) {
	if seq > p.seq {
		p.server, p.seq = server, seq
	}
}

// New returns a machine. If a setting is invalid, it returns an error that names the setting.
func New(config core.Config) (*Machine, error) {
	config.Table.Enabled = true
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{
		Base: core.NewBase(config), row: -1,
		peers: make(map[transport.Address]*peer), deaths: make(map[transport.Address]*death),
		lease: lease{until: time.Time{}.Add(1), doubt: true},
	}
	m.echo = detector.Echo{Base: &m.Base}
	m.probes.asked = make(map[uint64]asked)
	m.probes.seen = make(map[suspicion]time.Time)
	return m, nil
}

// Step handles one input at the time now. If now is before the time of the last input, the time of
// the last input is used instead.
func (m *Machine) Step(now time.Time, in core.Input) core.Output {
	m.Out = core.Output{Lease: m.lease.until}
	if m.Phase == core.Ended {
		return m.Out
	}
	m.advance(now)
	m.take(in)
	m.catchUp()
	m.run()
	m.publish()
	m.renew()
	if m.Phase == core.Ended {
		m.Out.WakeAt = time.Time{}
		m.Out.ReadTable, m.Out.WriteTable, m.Out.WriteAlive = nil, nil, nil
	}
	m.wake = m.Out.WakeAt
	if invariant.Enabled {
		if err := m.Check(); err != nil {
			invariant.Failf("after %T: %v", in, err)
		}
	}
	return m.Out
}

// View returns the cluster as this node sees it now, without copying.
func (m *Machine) View() *core.View { return m.Shown }

// Lease returns the time until which this node may start turns and send answers. A node that is not
// a member gets a time in the past.
func (m *Machine) Lease() time.Time { return m.lease.until }

// Table returns the table as this node knows it; nil before the first read. The returned table
// never changes.
func (m *Machine) Table() *rows.Table { return m.table }

// Health returns the score of this node's own health, from 0 for healthy to maxHealth, 8.
func (m *Machine) Health() int { return m.health.score }

func (m *Machine) advance(now time.Time) {
	if m.Now.IsZero() || now.After(m.Now) {
		m.Now = now
	}
	late := m.Now.Sub(m.wake)
	if m.wake.IsZero() {
		return
	}
	if late > m.Config.PauseThreshold {
		m.paused(late)
	}
	if late > m.Config.FormWindow && !m.joiner.heardSelf.IsZero() {
		m.joiner.heardSelf = m.Now // the answers to its hellos may wait in the queue
	}
}

// paused drops the conclusions from others' silence, because this node itself stood still for the
// duration late.
func (m *Machine) paused(late time.Duration) {
	m.health.late(m, late)
	m.forgive()
}

// forgive drops all conclusions from others' silence, because this node's own process or connection
// may have been the cause.
func (m *Machine) forgive() {
	//arch:order-free each peer is treated alike
	for _, p := range m.peers {
		missing := p.missing
		p.listens()
		if m.Phase == core.Asking { // missing counts across servers: see gone
			p.missing = missing
		}
		p.probe = probe{forced: p.probe.forced, quarantine: p.probe.quarantine} // those have other causes
		p.silent = false
	}
	m.stale, m.forgiven = true, m.Now
}

func (m *Machine) take(in core.Input) {
	switch in := in.(type) {
	case core.Start:
		m.onStart()
	case core.Receive:
		m.onReceive(in)
	case core.Unreachable:
		m.onUnreachable(in)
	case core.Suspected:
		m.onSuspected(in.Peer)
	case core.Asked:
		m.onAsked(in)
	case core.ConnState:
		m.onConnState(in)
	case core.TableRows:
		m.onRows(in)
	case core.TableWritten:
		m.onWritten(in)
	case core.Paused:
		m.paused(in.For)
	case core.Leave:
		m.onLeave()
	case core.ExitReady:
		m.exitReady = true
	case core.DownNode:
		m.onDownNode(in.Node)
	case core.Undeliverable:
		m.onUndeliverable(in.Peer)
	case core.MessageLimit:
		m.limit = in.Bytes
	case core.Tick:
	case core.Vacant, core.Claimed, core.FoundingAnswer, core.LeaseAnswer: // answers to what gossip asks for
	default:
		invariant.Failf("membership input %T is unknown", in)
	}
}

// run does the work that is due in this step.
func (m *Machine) run() {
	if m.Phase == core.Idle || m.Phase == core.Ended {
		return
	}
	m.echo.RunEcho()
	m.runJoining()
	if m.Phase == core.Ended {
		return
	}
	if m.Phase == core.Joined {
		m.greet()
		m.health.run(m)
		m.runProbes()
		m.runSilence()
		m.runTouches()
		m.runDeaths()
	}
	m.runStand()
	m.runClient()
}

// self returns this node's row; nil before the table has it.
func (m *Machine) self() *rows.Row {
	if m.row < 0 {
		return nil
	}
	return &m.table.Rows[m.row]
}

// peer returns what this node has observed of a node, and adds an empty entry if there is none.
func (m *Machine) peer(a transport.Address) *peer {
	p := m.peers[a]
	if p == nil {
		p = &peer{}
		m.peers[a] = p
	}
	return p
}

// onReceive passes a message to its handler, or refuses it.
func (m *Machine) onReceive(in core.Receive) {
	if m.Phase == core.Idle || in.Message == nil {
		return
	}
	m.health.waited(m, in.Waited)
	switch msg := in.Message.(type) {
	case message.Echo:
		m.onEcho(in.From, msg)
		return
	case message.Removal:
		m.onRemoval(in.From, msg)
		return
	case message.Snapshot:
		if in.From != m.Config.Self && (msg.Target == 0 || m.mine(msg.Target)) {
			m.heard(in.From)
			m.onSnapshot(in.From, msg)
		}
		return
	}
	if m.greeted(in) || in.From == m.Config.Self || m.table == nil {
		return
	}
	if r := m.table.Row(in.From); r != nil && r.Gone() {
		if _, ok := in.Message.(message.Stand); ok {
			m.sendTable(in.From, 0)
		} else {
			m.Send(in.From, message.Removal{Target: message.TargetOf(in.From), Left: r.Status == gossip.Removed})
		}
		m.Refuse(core.RefusedOutcast)
		return
	}
	m.heard(in.From)
	switch msg := in.Message.(type) {
	case message.Stand:
		if m.mine(msg.Target) {
			m.onStand(in.From, msg)
		}
	case message.StandAck:
		if m.mine(msg.Target) {
			m.onStandAck(in.From, msg)
		}
	case message.Probe:
		if m.mine(msg.Target) {
			m.onProbe(in.From, msg)
		}
	case message.ProbeAck:
		if m.mine(msg.Target) {
			m.onProbeAck(in.From, msg)
		}
	case message.IndirectProbe:
		if m.mine(msg.Target) {
			m.onIndirectProbe(in.From, msg)
		}
	case message.IndirectAck:
		if m.mine(msg.Target) {
			m.onIndirectAck(in.From, msg)
		}
	}
}

// mine reports whether a message is for this incarnation. It records the refusal of any other.
func (m *Machine) mine(target uint32) bool {
	if target == message.TargetOf(m.Config.Self) {
		return true
	}
	m.Refuse(core.RefusedTarget)
	return false
}

// note adds a member to those that accused examines.
func (m *Machine) note(a transport.Address) { m.noted = gossip.WithAddress(m.noted, a) }

// A past is a table, and a time at which this node knew it.
type past struct {
	at    time.Time
	table *rows.Table
}

// keepPast keeps a copy of the table from time to time, for about twice Outage: see unchanged.
func (m *Machine) keepPast() {
	n := len(m.pasts)
	if n > 0 && m.Now.Sub(m.pasts[n-1].at) < m.Config.Table.AliveInterval/2 {
		return
	}
	if n > 1 && m.Now.Sub(m.pasts[1].at) > 2*m.Config.Table.Outage {
		m.pasts = slices.Delete(m.pasts, 0, 1)
	}
	m.pasts = append(m.pasts, past{m.Now, m.table})
}

// A knownAt records when this node adopted a version.
type knownAt struct {
	version uint64
	at      time.Time
}

// noteVersion records that this node adopts a version now.
func (m *Machine) noteVersion(version uint64) {
	for len(m.known) > 1 && m.Now.Sub(m.known[1].at) > 2*m.Config.QuorumTimeout {
		m.known = m.known[1:]
	}
	m.known = append(m.known, knownAt{version, m.Now})
}

// knownSince returns when this node first knew a version or, without record of that, a later time.
func (m *Machine) knownSince(version uint64) time.Time {
	for _, k := range m.known {
		if k.version >= version {
			return k.at
		}
	}
	return m.Now
}

// knewBefore reports whether this node has known a node's row for the given time.
func (m *Machine) knewBefore(node transport.Address, ago time.Duration) bool {
	for _, p := range m.pasts {
		if m.Now.Sub(p.at) < ago {
			break
		}
		if p.table.Row(node) != nil {
			return true
		}
	}
	return false
}

// unchanged returns since when this node has seen no later I-am-alive of a member.
func (m *Machine) unchanged(r *rows.Row) time.Time {
	latest := r.Alive.UnixMilli()
	since := m.Now
	for i := len(m.pasts) - 1; i >= 0; i-- {
		old := m.pasts[i].table.Row(r.Address)
		if old == nil {
			break
		}
		switch at := old.Alive.UnixMilli(); {
		case at >= latest:
			latest, since = at, m.pasts[i].at
		default:
			return since
		}
	}
	return since
}

// heard records a sign of life, which refutes earlier reports of the broker that nobody listens
// there.
func (m *Machine) heard(from transport.Address) {
	p := m.peers[from]
	if p == nil {
		return // nothing stands against it
	}
	if !p.absent.IsZero() {
		m.stale = true
	}
	p.heard, p.left, p.silent = m.Now, false, false
	p.listens()
}

// onRemoval handles another node's message that this incarnation is dead. This node believes only
// the table. So it reads the table, and sends the sender a stand, to which a sender with a later
// version answers with the table.
func (m *Machine) onRemoval(from transport.Address, msg message.Removal) {
	if msg.Target == message.TargetOf(m.Config.Self) && m.row >= 0 {
		m.client.want = true
		m.sendStand(from)
	}
}

func (m *Machine) onEcho(from transport.Address, msg message.Echo) {
	if m.Phase != core.Joined && m.Phase != core.Asking || from != m.Config.Self || !m.echo.AwaitsEcho(msg.Seq) {
		return
	}
	if !m.echo.EchoAlive() {
		m.forgive() // nothing came through, so no member could be heard
	}
	m.echo.EchoReturned(msg.Seq)
}

// onConnState handles a change of the connection. After a new connection it drops conclusions from
// silence, and doubts the lease, because the broker may have reported this node gone meanwhile.
func (m *Machine) onConnState(in core.ConnState) {
	fresh := in.Connected && (!m.Conn.Connected || m.Conn.Server != in.Server)
	m.Conn, m.Mark = in, message.MarkOf(in.Server)
	m.place = strings.TrimLeft(in.Name+" "+in.Server, " ")
	if fresh || !in.Connected { // what was sent before may have gone through a connection that this node does not know yet
		m.echo.ResetEcho()
	}
	if !fresh {
		return
	}
	m.forgive()
	//arch:order-free each peer is treated alike
	for _, p := range m.peers {
		p.met, p.left, p.stood = time.Time{}, false, stood{}
	}
	//arch:order-free each death is treated alike
	for _, d := range m.deaths {
		d.bounced = time.Time{}
	}
	m.beginDoubt()
	m.unmet = m.Phase == core.Joined
	if m.table != nil {
		m.unmetTo = m.table.Version
	}
	m.stand.sent, m.probes.asked = nil, make(map[uint64]asked)
	m.joiner.move = m.Now.Add(moveAfter)
	if m.Phase == core.Asking { // the old connection proved nothing of this one
		m.joiner.proofs, m.joiner.tries = make(map[transport.Address]bool), make(map[transport.Address]int)
	}
}

// onLeave starts leaving. A node without a row leaves at once.
func (m *Machine) onLeave() {
	if m.Phase == core.Idle || m.Phase == core.Searching {
		m.Emit(core.SelfRemoved{})
		m.End()
		return
	}
	m.leaving = true
}

// onDownNode records an operator's command to down a member.
func (m *Machine) onDownNode(node transport.Address) {
	if m.Phase != core.Joined {
		return
	}
	for i := range m.table.Rows {
		r := &m.table.Rows[i]
		if r.Name == node.Name && (node.Incarnation == 0 || r.Incarnation == node.Incarnation) && !r.Gone() {
			m.peer(r.Address).probe.forced = true
			m.note(r.Address)
		}
	}
}

// onUndeliverable records that a member must be quarantined, because it has missed a required
// message.
func (m *Machine) onUndeliverable(node transport.Address) {
	if r := m.table.Row(node); m.Phase == core.Joined && node != m.Config.Self && r != nil && !r.Gone() {
		m.peer(node).probe.quarantine = true
		m.note(node)
	}
}

// Preform makes an idle machine a member of a cluster that has long been formed, without events. It
// replaces Start. Table t has this node's row as active.
func (m *Machine) Preform(now time.Time, t *rows.Table) {
	if m.Phase != core.Idle {
		invariant.Failf("preform a machine that has been started")
	}
	m.Now = now
	m.put(t)
	m.noteVersion(t.Version)
	m.joiner.version, m.joiner.founder = 1, m.self().Founder
	m.stand.aliveKnown(now)
	m.entered()
	m.Shown, m.stale = m.newView(), false
}

// Check returns an error naming the violated invariant:
//  1. The table is well formed.
//  2. A member is in its own table, and active.
//  3. The view shows the table.
//  4. A lease ends within SelfHeartbeatTimeout.
func (m *Machine) Check() error {
	if m.Phase != core.Joined {
		return nil
	}
	if err := m.table.Check(); err != nil {
		return fmt.Errorf("invariant 1: %w", err)
	}
	r := m.self()
	if r == nil || r.Address != m.Config.Self || !r.Active() {
		return fmt.Errorf("invariant 2: %v is a member, but its row is %v in table %v", m.Config.Self, r, m.table)
	}
	if m.Shown.SelfStatus != r.Status {
		return fmt.Errorf("invariant 3: view %+v does not show %v", m.Shown, m.table)
	}
	if m.lease.until.After(m.Now.Add(m.Config.SelfHeartbeatTimeout)) {
		return fmt.Errorf("invariant 4: the lease ends in %v, later than SelfHeartbeatTimeout %v", m.lease.until.Sub(m.Now), m.Config.SelfHeartbeatTimeout)
	}
	return nil
}
