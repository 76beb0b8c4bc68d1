package downing

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/transport"
)

// A Majority carries out DowningBroker: it downs members that are gone, and judges other
// unreachable members by keep-majority.
type Majority struct {
	*core.Node
	Echo        *detector.Echo
	Beats       *detector.Heartbeats
	Voters      *lease.Voters
	Execution   *Execution
	Indirect    *Indirect
	Exposure    *Exposure
	Agreement   *Agreement
	Unreachable *Unreachables
}

// downGone downs the gone members. In a small cluster each observer downs those that it found gone.
// The leader downs all, because the observer may have died.
func (d *Majority) downGone() {
	var victims []gossip.Member
	leads := d.Leads()
	for _, i := range d.Local().Unreachable {
		r := d.Gossip.Members[i]
		held, _ := d.Gossip.Record(d.Config.Self, r.Address)
		mine := held.Evidence == gossip.EvidenceGone && d.Small()
		if mine || leads && r.Address != d.Config.Self && d.Local().Evidence[i] == gossip.EvidenceGone {
			victims = append(victims, r)
		}
	}
	d.Execution.downTogether(victims)
}

// downAt returns when the unreachable member at index place is due to be judged. The time counts
// from when the observer last heard the member.
//
// A node judges before SilentAfter only if its own echoes have returned without a gap for
// SilentAfter. Otherwise packets may have been lost on its own connection.
func (d *Majority) downAt(place int) time.Time {
	f, node := d.Local(), d.Gossip.Members[place].Address
	at := d.Unreachable.since[node].Add(max(d.Config.SilentAfter-f.Quiet[place], 0))
	clean := d.Echo.Muffled
	if !clean.IsZero() {
		clean = clean.Add(d.Config.SilentAfter)
	}
	// CutAfter counts only from the broker's answers. How long another observer has not heard the
	// member proves nothing about its subscription.
	absent := d.Unreachable.absent[node].Add(max(d.Config.CutAfter-f.Absent[place], 0))
	switch f.Evidence[place] {
	case gossip.EvidenceGone:
		at = core.Earlier(at, absent)
	case gossip.EvidenceCut, gossip.EvidenceLost:
		at = core.Earlier(at, core.Later(absent, clean))
	}
	if since, ok := d.Agreement.agreedSince(place); ok {
		at = core.Earlier(at, core.Later(since.Add(d.Config.AgreedAfter), clean))
	}
	return at
}

// downByMajority judges the members whose time to be judged has come, and the members that are lost
// to all voters. This side stops only if it would lose even together with the other unreachable
// members, whose time has not come. These may come back. Also, just after connections have opened,
// this node sees accusations of the other side for a moment.
func (d *Majority) downByMajority() {
	var due []gossip.Member
	var pending []transport.Address
	for _, i := range d.Local().Unreachable {
		r := d.Gossip.Members[i]
		if _, ok := d.Unreachable.since[r.Address]; !ok {
			continue
		}
		at := d.downAt(i)
		early := d.Now.Before(at)
		if early {
			d.WakeAt(at)
			pending = append(pending, r.Address)
		}
		if r.Address != d.Config.Self && (!early || d.Voters.LostToAll(r.Address)) {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		d.Execution.picked, d.Indirect.since, d.Indirect.picks = nil, time.Time{}, time.Time{}
		if len(pending) > 0 {
			d.Indirect.watch()
		} else {
			d.Indirect.forget()
		}
		return
	}
	if !d.Small() && !d.Due(&d.Execution.judgeAt, judgeInterval) {
		return
	}
	side, indirectlyConnected := d.Indirect.survivors()
	lost := func(side []transport.Address) bool { return !gossip.HasAddress(side, d.Config.Self) || !d.wins(side) }
	if lost(side) {
		if !lost(gossip.WithAddresses(side, pending)) || d.Indirect.waitsForOthers(indirectlyConnected) {
			return // those whose time is not over may come back, or be missed by mistake
		}
		d.Execution.stopAsMinority(fmt.Sprintf("%s cannot be reached, and %s", gossip.Names(gossip.AddressesOf(due)), d.lostBecause()))
		return
	}
	d.Indirect.since = time.Time{}
	if d.Small() && d.Indirect.unsettled(side, indirectlyConnected) {
		return // a large cluster's batch settles as well
	}
	if !d.Small() && d.Now.Sub(d.Beats.HalfHeard) > d.Config.QuorumTimeout {
		return // the side may count members that nobody on it hears: ADR 0009
	}
	if !d.Execution.acts(side) {
		return // the acting member is reachable
	}
	due = slices.DeleteFunc(due, func(r gossip.Member) bool { return gossip.HasAddress(side, r.Address) })
	picked := d.pickedFor(side)
	d.Execution.picked = gossip.AddressesOf(picked)
	d.Execution.downTogether(append(due, picked...))
}

// wins reports whether a side has the majority of the voters, or half of them and the oldest. If
// there are no voters, every side wins. Of two voters, the older does not win alone if the younger
// may have downed it.
func (d *Majority) wins(side []transport.Address) bool {
	s := d.Voters.Split(side)
	if len(s.Voters) == 2 && s.Votes() == 1 && d.Exposure.mayBeDowned() {
		return false
	}
	return len(s.Voters) == 0 || s.Majority()
}

func (d *Majority) lostBecause() string {
	if d.Exposure.mayBeDowned() {
		return "it may have downed this node, whose connection to the server was lost"
	}
	return "this node is on the smaller side"
}

// pickedFor returns the reachable members that a side leaves out. It returns none in a small
// cluster, where each such member stops by itself.
func (d *Majority) pickedFor(side []transport.Address) []gossip.Member {
	if d.Small() {
		return nil
	}
	var picked []gossip.Member
	for i, r := range d.Gossip.Members {
		if r.Status != gossip.Down && d.Local().Evidence[i] == gossip.NoEvidence && !gossip.HasAddress(side, r.Address) {
			picked = append(picked, r)
		}
	}
	return picked
}
