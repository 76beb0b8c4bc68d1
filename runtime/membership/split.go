package membership

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// judgeSplit asks the strategy once the split is due.
func (m *Machine) judgeSplit() {
	if !m.splitDue() || !m.small() && !m.due(&m.downing.judgeAt, judgeInterval) {
		return
	}
	reachable, _ := m.survivors()
	side := splitbrain.Split{Electorate: m.electorate(m.voters()), Side: reachable}
	missing := gossip.Names(m.downing.lost)
	if !gossip.HasAddress(side.Side, m.config.Self) {
		m.stopAsMinority(missing + " cannot be reached by all, nor can this node")
		return
	}
	switch v := m.strategy.Decide(side); v {
	case splitbrain.Wait:
	case splitbrain.GoOn:
		if m.acts(reachable) { // else another one does, who is reachable
			m.downLost(reachable, sentence{})
		}
	case splitbrain.Stop:
		m.stopAsMinority(fmt.Sprintf("%s cannot be reached, and this side does not go on (%v: %d of %d votes)",
			missing, m.config.Downing, side.Votes(), len(side.Voters)))
	case splitbrain.StopAll:
		if !m.small() && !m.acts(reachable) {
			return // it tells all; if it cannot, the next one is the first
		}
		m.downMembers(slices.Clone(m.state.Members), sentence{
			reason: fmt.Sprintf("%s cannot be reached, and so all nodes stop (%v)", missing, m.config.Downing),
		})
	case splitbrain.AskFirst, splitbrain.AskLater:
		if m.acts(reachable) {
			m.claimLease(v == splitbrain.AskLater, reachable)
		}
	}
}

// splitDue reports whether members are unreachable whose set has not changed for
// StableAfter, or has gone on changing for twice that.
func (m *Machine) splitDue() bool {
	var lost []transport.Address
	for _, i := range m.local().Unreachable {
		r := m.state.Members[i]
		if _, ok := m.downing.since[r.Address]; ok && r.Address != m.config.Self && r.Status != gossip.Exiting {
			lost = append(lost, r.Address)
		}
	}
	d := &m.downing
	if !slices.Equal(lost, d.lost) {
		if len(d.lost) == 0 {
			d.lostFirst = m.now
		}
		d.lost, d.lostAt = lost, m.now
	}
	if len(lost) == 0 {
		d.claim = claim{}
		return false
	}
	at := d.lostAt.Add(m.config.StableAfter)
	if limit := d.lostFirst.Add(2 * m.config.StableAfter); limit.Before(at) {
		at = limit
	}
	if m.now.Before(at) {
		d.claim = claim{}
		m.wakeAt(at)
		return false
	}
	return true
}

// downLost downs the unreachable members that are not on this side.
func (m *Machine) downLost(side []transport.Address, by sentence) {
	var victims []gossip.Member
	for _, node := range m.downing.lost {
		r, ok := m.state.Member(node)
		if !ok || gossip.HasAddress(side, node) {
			continue
		}
		victims = append(victims, r)
	}
	// Those that are left out because their ways are broken, though reachable.
	for _, r := range m.state.Members {
		if r.Status != gossip.Down && !gossip.HasAddress(side, r.Address) && !slices.Contains(m.downing.lost, r.Address) {
			victims = append(victims, r)
		}
	}
	m.downMembers(victims, by)
}

// autoDown is the leader's part: it downs whoever was unreachable for long enough.
func (m *Machine) autoDown() {
	if !m.leads() {
		return
	}
	var victims []gossip.Member
	for _, i := range m.local().Unreachable {
		r := m.state.Members[i]
		since, ok := m.downing.since[r.Address]
		if !ok || r.Address == m.config.Self {
			continue
		}
		if at := since.Add(m.config.AutoDownAfter); m.now.Before(at) {
			m.wakeAt(at)
			continue
		}
		victims = append(victims, r)
	}
	m.downTogether(victims)
}
