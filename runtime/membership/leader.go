package membership

import (
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// runLeader does the leader's duties if they are this node's. Each is a new
// version that the others must see before the next, except where there are none.
func (m *Machine) runLeader() {
	for {
		if m.facts().why == "" {
			if m.downing.elected != m.facts().shape {
				m.downing.elected, m.downing.electorate = m.facts().shape, m.gossip.electorate()
			}
			m.unconverged = time.Time{}
		} else if m.unconverged.IsZero() {
			m.unconverged = m.now
		}
		if !m.leads() {
			return
		}
		m.fence()
		if !m.lead() {
			return
		}
		if m.phase != member {
			return
		}
	}
}

// electorate are the Up and Leaving members. Those that a smaller side downed under
// a lease belong to it until they are fenced: they may be the larger one.
func (g *Gossip) electorate() []transport.Address {
	var nodes []transport.Address
	for _, r := range g.Members {
		if r.Status == Up || r.Status == Leaving || r.Status == Down && r.Judged && !r.Fenced {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// lead does one round of duties and tells whether it changed anything.
func (m *Machine) lead() bool {
	if !m.unconverged.IsZero() {
		return m.leadWeakly()
	}
	if m.led == m.gossip {
		return false // nothing was due, and nothing is new
	}
	m.led = m.gossip
	var moved, removed []Member
	enough, room := m.enough(), m.room()
	for _, r := range m.gossip.Members {
		switch r.Status {
		case Joining, WeaklyUp:
			if m.doubled(r) {
				r.Status = Down
				moved = append(moved, r)
			} else if enough && (room > 0 || !m.config.votes(r)) {
				if m.config.votes(r) {
					room--
				}
				r.Status = Up
				moved = append(moved, r)
			}
		case Leaving:
			if r.ExitReady {
				r.Status = Exiting
				moved = append(moved, r)
			}
		case Exiting:
			removed = append(removed, r)
		case Down:
			if r.Fenced {
				removed = append(removed, r)
			}
		}
	}
	// This node itself goes last: it leads while Exiting only when nobody else can.
	removed = slices.DeleteFunc(removed, func(r Member) bool { return r.Address == m.config.Self })
	if len(moved) == 0 && len(removed) == 0 {
		if len(m.gossip.Members) == 1 && m.self().Status == Exiting {
			m.endMember(true, "")
		}
		return false
	}
	m.apply(moved, removed)
	return true
}

// apply makes one new version of all that is due, and tells the removed.
func (m *Machine) apply(moved, removed []Member) {
	m.update(func(g *Gossip) {
		for _, r := range moved {
			if r.Status == Up {
				g.UpCounter++
				r.UpNumber = g.UpCounter
			}
			to := r.Status
			before, _ := g.member(r.Address)
			r.Status = before.Status
			g.setStatus(r, to)
		}
		for _, r := range removed {
			g.remove(r.Address, r.Status == Exiting)
		}
	})
	for _, r := range removed {
		m.send(r.Address, Removal{Target: mark32(r.Address), Left: r.Status == Exiting})
	}
}

// doubled tells whether a member that is not up yet has a name that another
// member holds with more right: two members admitted the two at the same time.
func (m *Machine) doubled(r Member) bool {
	return slices.ContainsFunc(m.gossip.named(r.Name), func(o Member) bool {
		if o.Address == r.Address || o.Status == Down {
			return false
		}
		return o.UpNumber != 0 || r.UpNumber == 0 && o.Incarnation < r.Incarnation
	})
}

// enough tells whether joining members may become Up: once one was, always;
// before that with the configured number of members.
func (m *Machine) enough() bool {
	if m.gossip.UpCounter > 0 {
		return true
	}
	count := func(role string) int {
		n := 0
		for _, r := range m.gossip.Members {
			if r.Status <= Up && r.HasRole(role) {
				n++
			}
		}
		return n
	}
	return count("") >= m.config.MinMembers && !slices.ContainsFunc(m.config.MinRoleMembers, func(min RoleMinimum) bool {
		return count(min.Role) < min.Members
	})
}

// leadWeakly lets joining members serve when nothing has converged for long.
func (m *Machine) leadWeakly() bool {
	if m.config.WeaklyUpAfter == 0 || m.facts().joining == 0 || !m.enough() || m.gossip.UpCounter == 0 {
		return false
	}
	var weak []Member
	for _, r := range m.gossip.Members {
		if r.Status == Joining && m.evidence(r.Address) == NoEvidence && !m.doubled(r) {
			weak = append(weak, r)
		}
	}
	if len(weak) == 0 {
		return false
	}
	at := m.unconverged.Add(m.config.WeaklyUpAfter)
	if m.now.Before(at) {
		m.wakeAt(at)
		return false
	}
	m.update(func(g *Gossip) {
		for _, r := range weak {
			g.setStatus(r, WeaklyUp)
		}
	})
	return true
}

// room is how many more voters there may be without two sides that could both have
// a static quorum. Every member that ever was Up counts until it is removed.
func (m *Machine) room() int {
	q, ok := m.strategy.(staticQuorum)
	if !ok {
		return math.MaxInt
	}
	n := 0
	for _, r := range m.gossip.Members {
		if r.UpNumber != 0 && m.config.votes(r) {
			n++
		}
	}
	return q.most() - n
}
