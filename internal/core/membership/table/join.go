package table

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A joiner is the progress of a node that joins: it writes a row, exchanges messages with every
// active member, and becomes active.
type joiner struct {
	until   time.Time // when this node gives up
	version uint64    // the first known version that has this node's row; 0 before
	founder transport.Address
	proofs  map[transport.Address]bool // active members that have answered, knowing the row
	tries   map[transport.Address]int
	again   time.Time // when probes are sent next
	move    time.Time // when this node may connect to another server
	why     string    // what this node waits for
	// Before it makes the first row of a cluster, a node looks for members that agree by gossip.
	hellos    uint32
	hello     time.Time                  // when the next hello is sent
	heardSelf time.Time                  // when its first hello returned
	heard     map[transport.Address]bool // the joiners whose hellos it heard, while nobody was active
	crowd     bool                       // many nodes join: see admit.go
	luck      float64                    // above 0, up to 1: this node's place among many that do the same
	// Among many joiners this node asks a member to write for it: see admit.go.
	asking, asks time.Time // since when, and when it asks next
	shows        time.Time // when its next view is made
	entered      uint64    // the first known version that has this node as active
	checked      uint64    // the version in which the settings of all members suited this node
}

const helloInterval = 100 * time.Millisecond

// proveInterval is the time between two probes of a joiner. An active member counts as silent when
// it has left proveTries of them unanswered.
const (
	proveInterval = 200 * time.Millisecond
	proveTries    = 5
	// moveAfter is how long a joiner stays at a server to prove deaths there and to ask others: see
	// unanswered.
	moveAfter = 2 * time.Second
)

func (j *joiner) proved(from transport.Address, version uint64) {
	if j.proofs != nil && j.version != 0 && version >= j.version {
		j.proofs[from] = true
	}
}

func (m *Machine) onStart() {
	if m.Phase != core.Idle {
		return
	}
	m.Phase = core.Searching
	m.joiner.until = m.Now.Add(m.Config.JoinTimeout)
	m.joiner.heard = make(map[transport.Address]bool)
	m.joiner.why = "the table is out of reach"
}

// runJoining sends a joiner's hellos and probes, and gives up after JoinTimeout.
func (m *Machine) runJoining() {
	j := &m.joiner
	if m.Phase != core.Searching && m.Phase != core.Asking {
		return
	}
	if !m.Now.Before(j.until) {
		m.Emit(core.JoinFailed{Err: fmt.Errorf("join %s as %v: no admission within Config.Membership.JoinTimeout (%v): %s",
			m.Config.Cluster, m.Config.Self, m.Config.JoinTimeout, j.why)})
		m.End()
		return
	}
	m.WakeAt(j.until)
	if m.Phase == core.Searching {
		if m.Conn.Connected && m.table != nil && len(m.table.Summary().Ages) == 0 && m.Due(&j.hello, helloInterval+m.spread(len(j.heard))) {
			j.hellos++
			m.Broadcast(message.Hello{Attempt: j.hellos, Interval: helloInterval})
		}
		switch r := m.self(); {
		case r == nil:
		case r.Gone():
			m.EndDead("the table has this node as dead" + m.blame(r))
		default: // the write was done, perhaps though its answer did not come
			m.ask()
		}
		return
	}
	if !m.Due(&j.again, proveInterval) {
		return
	}
	active, n := len(m.table.Summary().Ages) > 0, 0
	m.successors(func(r *rows.Row) bool {
		n++
		// Where nobody is active, a few others watch that no joiner has died.
		watch := !active && n <= m.Config.Table.Successors || r.Name == m.Config.Self.Name
		if r.Active() && !j.proofs[r.Address] && !m.together(r) || watch {
			j.tries[r.Address]++
			m.sendProbe(r.Address, j.version, asked{subject: r.Address})
		}
		if (r.Active() || r.Name == m.Config.Self.Name) && !m.large() && !m.peer(r.Address).absent.IsZero() {
			m.askServer(r, m.Config.ProbeInterval)
		}
		return true
	})
	if m.unanswered() {
		m.runDeaths()
		m.moveOn()
	}
}

// unanswered reports whether no active member answers this joiner. Perhaps all have died, and each
// can be proven dead only by its own server. So each joiner then declares dead, and fences, the
// members of the joiner's server. For other members it asks their servers. If these give no
// evidence, it connects to them one after another.
func (m *Machine) unanswered() bool {
	return m.Phase == core.Asking && !slices.ContainsFunc(m.table.Summary().Ages, func(r *rows.Row) bool {
		return !m.gone(r) && (m.joiner.proofs[r.Address] || m.joiner.tries[r.Address] <= proveTries)
	})
}

// moveOn asks for a connection to another server if three conditions hold: deaths are left to
// prove; none of these members is at this node's server; and for some of them, their own server
// does not answer that the member is gone.
func (m *Machine) moveOn() {
	s := m.table.Summary()
	left := slices.Concat(s.Ages, s.Down)
	move := !slices.ContainsFunc(left, m.ownServer) && slices.ContainsFunc(left, m.unproven)
	if move && m.Conn.Connected && m.Due(&m.joiner.move, moveAfter) {
		m.Out.Move = true
	}
}

// ask begins to probe the active members, once this node has a row.
func (m *Machine) ask() {
	m.Phase = core.Asking
	m.joiner.version = m.table.Version
	m.joiner.asking, m.joiner.asks = time.Time{}, time.Time{}
	m.joiner.proofs, m.joiner.tries = make(map[transport.Address]bool), make(map[transport.Address]int)
	m.joiner.founder = m.self().Founder
	m.stand.aliveKnown(m.client.reached)
	m.noteDeaths()
}

// greeted handles Hello, HelloAck, Join and JoinRefused. By these messages this node also finds
// members that use gossip or another table. It returns false for other messages.
func (m *Machine) greeted(in core.Receive) bool {
	switch msg := in.Message.(type) {
	case message.Hello:
		switch {
		case in.From == m.Config.Self:
			if m.joiner.heardSelf.IsZero() {
				m.joiner.heardSelf = m.Now
			}
		case m.Phase == core.Searching:
			m.joiner.heard[in.From] = true
		case m.Phase == core.Joined && slices.Contains(m.guides(), m.Config.Self):
			m.Send(in.From, message.HelloAck{Target: message.TargetOf(in.From), Founder: m.self().Founder})
		}
	case message.HelloAck: // of a member that agrees by gossip, or of one that the last read did not show
		if f := msg.Founder; m.Phase == core.Joined && !f.IsZero() && f != m.self().Founder {
			m.Emit(core.OtherTable{Node: in.From, Founder: f})
		}
		if m.Phase == core.Searching && msg.Target == message.TargetOf(m.Config.Self) {
			m.client.want = true
			if m.table.Row(in.From) == nil { // if it uses another table, it keeps answering, and no row is made here
				m.joiner.heardSelf = m.Now
				m.joiner.why = fmt.Sprintf("%v is a member of this cluster, but not in this node's table (give both nodes the same table)", in.From)
			}
			m.Send(in.From, message.Join{
				Target: message.TargetOf(in.From), Roles: m.Config.Roles, Meta: m.Config.Meta, Compat: m.Config.Compat,
			})
		}
	case message.Join:
		if m.Phase < core.Asking || msg.Target != message.TargetOf(m.Config.Self) {
			break
		}
		if why := gossip.Incompatible(in.From.Name, msg.Compat, m.Config.Self.Name, m.Config.Compat); why != "" {
			m.Send(in.From, message.JoinRefused{Target: message.TargetOf(in.From), Final: true, Reason: why})
		} else if msg.Version != 0 {
			m.asked(in.From, msg)
		}
	case message.JoinRefused:
		if m.Phase == core.Searching && msg.Target == message.TargetOf(m.Config.Self) && msg.Final {
			m.refused(fmt.Sprintf("refused by %v: %s", in.From, msg.Reason))
		}
	default:
		return false
	}
	return true
}

// greet lets a guide broadcast a hello from time to time, to find a cluster of this name with
// another table, which may have been formed at the same moment.
func (m *Machine) greet() {
	if slices.Contains(m.guides(), m.Config.Self) && m.Due(&m.joiner.hello, m.Config.Table.Refresh) {
		m.joiner.hellos++
		m.Broadcast(message.Hello{Attempt: m.joiner.hellos, Interval: helloInterval})
	}
}

// refused ends a joiner with the reason why.
func (m *Machine) refused(why string) {
	m.Emit(core.JoinFailed{Err: fmt.Errorf("join %s as %v: %s", m.Config.Cluster, m.Config.Self, why)})
	m.End()
}

// wantedRow returns the write that adds this node's row.
func (m *Machine) wantedRow() (core.TableWrite, bool) {
	if !m.Conn.Connected || m.row >= 0 {
		return core.TableWrite{}, false
	}
	if m.waitsToAsk() {
		return core.TableWrite{}, false
	}
	if s := m.table.Summary(); len(s.Ages) == 0 && len(s.Ring) == 0 || len(s.Ages) == 0 && !m.crowded() {
		at := m.joiner.heardSelf.Add(m.Config.FormWindow + m.luckOf(m.spread(len(m.joiner.heard))))
		if m.joiner.heardSelf.IsZero() || m.Now.Before(at) {
			m.WakeAt(core.Later(at, m.Now.Add(helloInterval)))
			return core.TableWrite{}, false
		}
	}
	self := rows.Row{
		Member: gossip.Member{Address: m.Config.Self, Status: gossip.Joining, Roles: m.Config.Roles, Meta: m.Config.Meta},
		Compat: m.Config.Compat, Founder: m.Config.Self, Server: m.place, Started: m.Now, Alive: m.Now,
	}
	for i := range m.table.Rows {
		r := &m.table.Rows[i]
		self.Founder = r.Founder
		if r.Gone() {
			continue
		}
		if why := m.mismatch(r); why != "" {
			m.refused(why)
			return core.TableWrite{}, false
		}
	}
	m.joiner.checked = m.table.Version
	if m.asks() {
		return core.TableWrite{}, false
	}
	return core.TableWrite{Rows: []rows.Row{self}}, true
}

// mismatch describes the first setting that must be the same at this node and a member, but
// differs. It returns "" if there is none.
func (m *Machine) mismatch(r *rows.Row) string {
	if why := gossip.Incompatible(m.Config.Self.Name, m.Config.Compat, r.Name, r.Compat); why != "" {
		return why
	}
	return m.Mismatch(gossip.Member{Address: m.Config.Self, Meta: m.Config.Meta}, []gossip.Member{r.Member})
}

// wantedEntry returns the write that makes this node active. It returns false until every active
// member has answered this node, or does not answer and has not written I-am-alive lately.
func (m *Machine) wantedEntry() (core.TableWrite, bool) {
	j := &m.joiner
	if m.waitsToAsk() {
		return core.TableWrite{}, false
	}
	for i := range m.table.Rows {
		r := &m.table.Rows[i]
		if i == m.row || r.Gone() {
			continue
		}
		if r.Name == m.Config.Self.Name && (r.Active() || r.Incarnation < m.Config.Self.Incarnation) {
			j.why = fmt.Sprintf("the name is held by %v, which is %v (stop that one, or give this one another name)", r.Address, r.Status)
			return core.TableWrite{}, false
		}
		if !r.Active() || uint64(r.UpNumber) <= j.checked && j.proofs[r.Address] {
			continue
		}
		if uint64(r.UpNumber) > j.checked {
			if why := m.mismatch(r); why != "" {
				m.refused(why)
				return core.TableWrite{}, false
			}
		}
		if j.proofs[r.Address] || m.together(r) {
			continue
		}
		// By its own clock, which may be wrong, or as this node has seen it.
		stale := max(m.Now.Sub(r.Alive), m.Now.Sub(m.unchanged(r))) > m.staleAfter()
		if j.tries[r.Address] > proveTries && stale {
			m.peer(r.Address).passed = true
			continue // it does not answer, and has not for long: see the paper
		}
		j.why = fmt.Sprintf("active member %v does not answer, and each must before this node is admitted (if no member runs any more, delete the table's rows; in JetStream: shardctl store clear CLUSTER -table)", r.Address)
		return core.TableWrite{}, false
	}
	if len(m.table.Summary().Down) > 0 && m.unanswered() && m.Now.Before(j.until.Add(-m.Config.JoinTimeout/4)) {
		j.why = "the dead members are not fenced yet"
		return core.TableWrite{}, false // once active, this node does not go to their servers
	}
	if !m.enough() {
		j.why = "too few members have joined (see Config.Membership.MinMembers and MinRoleMembers)"
		return core.TableWrite{}, false
	}
	j.checked = m.table.Version
	if m.asks() {
		return core.TableWrite{}, false
	}
	number := uint32(m.table.Version + 1)
	return m.change(m.self(), func(r *rows.Row) { r.Status, r.UpNumber, r.Server = gossip.Up, number, m.place }), true
}

// enough reports whether the configured number of members have joined, or whether any member was
// ever Up.
func (m *Machine) enough() bool {
	count := func(role string) int {
		n := 0
		for i := range m.table.Rows {
			if r := &m.table.Rows[i]; !r.Gone() && r.HasRole(role) {
				n++
			}
		}
		return n
	}
	if m.table.Summary().EverUp {
		return true
	}
	return count("") >= m.Config.MinMembers && !slices.ContainsFunc(m.Config.MinRoleMembers, func(min core.RoleMinimum) bool {
		return count(min.Role) < min.Members
	})
}

// mayReplace reports whether a joiner may declare a member dead by itself. The broker must report
// the member gone. The member must be this node's former incarnation, unless no active member
// answers.
func (m *Machine) mayReplace(r *rows.Row) bool {
	return m.gone(r) && (r.Name == m.Config.Self.Name || m.unanswered())
}

// entered begins the membership of a node that has become active.
func (m *Machine) entered() {
	m.Phase, m.forgiven = core.Joined, m.Now
	m.echo.At, m.stand.due = m.Now, m.Now
	m.joiner.proofs, m.joiner.tries, m.joiner.entered = nil, nil, m.table.Version
	m.joiner.hello = m.Now.Add(5 * m.Config.FormWindow)
	m.client.aliveAt = m.Now.Add(time.Duration(m.Random.Int64N(int64(m.Config.Table.AliveInterval))))
	m.client.refresh = m.Now.Add(m.Config.Table.Refresh)
	if m.joiner.founder == m.Config.Self && len(m.table.Summary().Ages) == 1 {
		m.Emit(core.Formed{Founder: m.Config.Self})
	}
}
