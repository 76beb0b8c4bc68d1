package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// admission is whom a member of a large cluster admits next.
type admission struct {
	waiting []gossip.Member
	next    time.Time // not before that
}

// voters counts those that will have a vote.
func (a admission) voters(c Config) int {
	n := 0
	for _, r := range a.waiting {
		if c.votes(r) {
			n++
		}
	}
	return n
}

// welcomedAlone is up to how many that are admitted at once are each sent the
// state. More learn it from the leader's broadcast.
const welcomedAlone = 3

// admit takes a joiner in: at once in a small cluster. In a large one, or when so
// many come that it will be one, those that come close together get one version.
func (m *Machine) admit(joiner gossip.Member) {
	a := &m.admission
	if !slices.ContainsFunc(a.waiting, func(r gossip.Member) bool { return r.Address == joiner.Address }) {
		a.waiting = append(a.waiting, joiner)
	}
	if m.small() {
		m.admitWaiting()
	}
}

func (m *Machine) runAdmission() {
	if len(m.admission.waiting) == 0 {
		return
	}
	if m.now.Before(m.admission.next) {
		m.wakeAt(m.admission.next)
		return
	}
	m.admitWaiting()
}

func (m *Machine) admitWaiting() {
	joiners := m.admission.waiting
	m.admission = admission{next: m.now.Add(m.castInterval())}
	// Two may have come under one name, and others may have admitted some.
	taken := make(map[string]bool)
	joiners = slices.DeleteFunc(joiners, func(r gossip.Member) bool {
		double := taken[r.Name] || len(m.state.Named(r.Name)) > 0 || m.state.Removed(r.Address)
		taken[r.Name] = true
		return double // it asks again, and is told
	})
	if len(joiners) == 0 {
		return
	}
	m.update(func(g *gossip.State) {
		for _, r := range joiners {
			g.SetMember(r)
		}
	})
	if len(joiners) > welcomedAlone {
		return
	}
	for _, r := range joiners {
		m.send(r.Address, message.Welcome{Target: message.TargetOf(r.Address), State: m.state})
	}
}
