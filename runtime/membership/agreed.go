package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// Where all watch all, a silent member is judged after AgreedAfter in place of
// SilentAfter if more than half of the voters miss it by what they hear themselves.
// A single broken way, or a member that is starved and hears late, does not make so
// many.

// A missing is one observer's silence of a member, as this node was told.
type missing struct {
	quiet time.Duration // as the observer said
	since time.Time     // from when on, at the latest, by the own clock
}

// noteMissed keeps since when each observer misses each member.
func (m *Machine) noteMissed() {
	old := m.downing.missed
	m.downing.missed = nil
	if !m.bound() {
		return
	}
	for _, row := range m.state.Rows {
		for _, r := range row.Records {
			way := [2]transport.Address{row.Observer, r.Subject}
			was, ok := old[way]
			if !ok || was.quiet != r.Quiet {
				was = missing{r.Quiet, m.now.Add(-r.Quiet)}
			}
			if m.downing.missed == nil {
				m.downing.missed = make(map[[2]transport.Address]missing)
			}
			m.downing.missed[way] = was
		}
	}
}

// agreedSince is since when more than half of the voters, all of which can be
// reached, have missed a member. Each of them says so only while its own echoes
// return.
func (m *Machine) agreedSince(place int) (since time.Time, agreed bool) {
	f := m.local()
	if len(m.downing.missed) == 0 || !m.bound() {
		return time.Time{}, false
	}
	voters := m.voters()
	var all []time.Time
	for _, node := range voters {
		i, ok := m.state.Index(node)
		if !ok || f.Evidence[i] != gossip.NoEvidence {
			continue
		}
		if missed, ok := m.downing.missed[[2]transport.Address{node, m.state.Members[place].Address}]; ok {
			all = append(all, missed.since)
		}
	}
	need := splitbrain.MajorityOf(len(voters))
	if len(all) < need {
		return time.Time{}, false
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[need-1], true
}
