package membership

import (
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// runLeader does the leader's duties if they are this node's. Each is a new
// version that the others must see before the next, except where there are none.
func (m *Machine) runLeader() {
	for {
		if m.local().Why == "" {
			if m.downing.elected != m.local().Summary {
				m.downing.elected, m.downing.electorate = m.local().Summary, m.state.Electorate()
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

// lead does one round of duties and reports whether it changed anything.
func (m *Machine) lead() bool {
	if !m.unconverged.IsZero() {
		return m.leadWeakly()
	}
	if m.led == m.state {
		return false // nothing was due, and nothing is new
	}
	m.led = m.state
	var moved, removed []gossip.Member
	enough, room := m.enough(), m.room()
	for _, r := range m.state.Members {
		switch r.Status {
		case gossip.Joining, gossip.WeaklyUp:
			if m.doubled(r) {
				r.Status = gossip.Down
				moved = append(moved, r)
			} else if enough && (room > 0 || !m.config.votes(r)) {
				if m.config.votes(r) {
					room--
				}
				r.Status = gossip.Up
				moved = append(moved, r)
			}
		case gossip.Leaving:
			if r.ExitReady {
				r.Status = gossip.Exiting
				moved = append(moved, r)
			}
		case gossip.Exiting:
			removed = append(removed, r)
		case gossip.Down:
			if r.Fenced {
				removed = append(removed, r)
			}
		}
	}
	// This node itself goes last: it leads while Exiting only when nobody else can.
	removed = slices.DeleteFunc(removed, func(r gossip.Member) bool { return r.Address == m.config.Self })
	if len(moved) == 0 && len(removed) == 0 {
		if len(m.state.Members) == 1 && m.self().Status == gossip.Exiting {
			m.endMember(true, "")
		}
		return false
	}
	m.apply(moved, removed)
	return true
}

// apply makes one new version of all that is due, and tells the removed.
func (m *Machine) apply(moved, removed []gossip.Member) {
	m.update(func(g *gossip.State) {
		for _, r := range moved {
			if r.Status == gossip.Up {
				g.UpCounter++
				r.UpNumber = g.UpCounter
			}
			to := r.Status
			before, _ := g.Member(r.Address)
			r.Status = before.Status
			g.SetStatus(r, to)
		}
		for _, r := range removed {
			g.Remove(r.Address, r.Status == gossip.Exiting)
		}
	})
	for _, r := range removed {
		m.send(r.Address, message.Removal{Target: message.TargetOf(r.Address), Left: r.Status == gossip.Exiting})
	}
}

// doubled reports whether a member that is not up yet has a name that another
// member holds with more right: two members admitted the two at the same time.
func (m *Machine) doubled(r gossip.Member) bool {
	return slices.ContainsFunc(m.state.Named(r.Name), func(o gossip.Member) bool {
		if o.Address == r.Address || o.Status == gossip.Down {
			return false
		}
		return o.UpNumber != 0 || r.UpNumber == 0 && o.Incarnation < r.Incarnation
	})
}

// enough reports whether joining members may become Up: once one was, always;
// before that with the configured number of members.
func (m *Machine) enough() bool {
	if m.state.UpCounter > 0 {
		return true
	}
	count := func(role string) int {
		n := 0
		for _, r := range m.state.Members {
			if r.Status <= gossip.Up && r.HasRole(role) {
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
	if m.config.WeaklyUpAfter == 0 || m.local().Joining == 0 || !m.enough() || m.state.UpCounter == 0 {
		return false
	}
	var weak []gossip.Member
	for _, r := range m.state.Members {
		if r.Status == gossip.Joining && m.evidence(r.Address) == gossip.NoEvidence && !m.doubled(r) {
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
	m.update(func(g *gossip.State) {
		for _, r := range weak {
			g.SetStatus(r, gossip.WeaklyUp)
		}
	})
	return true
}

// room is how many more voters there may be without two sides that could both have
// a static quorum. Every member that ever was Up counts until it is removed.
func (m *Machine) room() int {
	most, bounded := splitbrain.MostVoters(m.strategy)
	if !bounded {
		return math.MaxInt
	}
	n := 0
	for _, r := range m.state.Members {
		if r.UpNumber != 0 && m.config.votes(r) {
			n++
		}
	}
	return most - n
}
