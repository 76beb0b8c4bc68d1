package membership

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// Check returns an error that names the invariant that does not hold:
//  1. The gossiped state is well formed (see [Gossip]); nobody but a Down member
//     is fenced.
//  2. A member is in its own gossiped state, not Down, and has seen it.
//  3. The view shows the gossiped state.
//  4. A lease without end is a sole member's; any other ends within LeaseEcho.
func (m *Machine) Check() error {
	if m.phase != member {
		return nil
	}
	if err := m.sound(m.gossip); err != nil {
		return fmt.Errorf("invariant 1: %w", err)
	}
	self, ok := m.gossip.member(m.config.Self)
	if !ok || self.Status == Down || !m.gossip.seenBy(m.config.Self) {
		return fmt.Errorf("invariant 2: %v is %v in %v", m.config.Self, self.Status, m.gossip)
	}
	if m.published != m.gossip || len(m.view.ByAddress) != len(m.gossip.Members) || m.view.SelfStatus != self.Status {
		return fmt.Errorf("invariant 3: view %+v does not show %v", m.view, m.gossip)
	}
	if m.lease.until.After(m.now.Add(m.config.LeaseEcho)) {
		return fmt.Errorf("invariant 4: lease ends in %v, LeaseEcho is %v", m.lease.until.Sub(m.now), m.config.LeaseEcho)
	}
	if !m.lease.until.IsZero() {
		return nil
	}
	for _, r := range m.gossip.Members {
		if r.Address != m.config.Self && r.Status == Up && m.evidence(r.Address) != EvidenceGone {
			return fmt.Errorf("invariant 4: a lease without end, and %v is Up", r.Address)
		}
	}
	return nil
}

// Counters beyond these were not counted: nobody makes a billion members, or so
// many changes. Refused, they cannot be brought to overflow.
const (
	maxCount32 = 1 << 30
	maxCount64 = 1 << 60
)

// sound is g.check, done once for states that share all but who has seen them.
func (m *Machine) sound(g *Gossip) error {
	if g == nil {
		return fmt.Errorf("gossip: none")
	}
	if err := g.shaped(m.rule()).wrong; err != nil {
		return err
	}
	return g.checkSeen()
}

// check tests the invariants of [Gossip], also on what came from outside.
func (g *Gossip) check() error {
	if g == nil {
		return fmt.Errorf("gossip: none")
	}
	if err := g.checkAll(); err != nil {
		return err
	}
	return g.checkSeen()
}

func (g *Gossip) checkSeen() error {
	if !g.Seen.fits(len(g.Members)) {
		return fmt.Errorf("gossip 1: seen by a set of %d bytes, of %d members", len(g.Seen), len(g.Members))
	}
	return nil
}

// checkAll is check for all but who has seen it.
func (g *Gossip) checkAll() error {
	if g.Founder.IsZero() {
		return fmt.Errorf("gossip: without a founder")
	}
	sorted := isSet(g.Members, func(m Member) transport.Address { return m.Address }) &&
		isSet(g.Rows, func(r ObserverRow) transport.Address { return r.Observer }) &&
		isSet(g.Tombstones, func(t Tombstone) transport.Address { return t.Node }) &&
		isSet(g.Version, func(e ClockEntry) transport.Address { return e.Node })
	if !sorted {
		return fmt.Errorf("gossip 1: not sorted, or an address twice, among %d members, %d rows, %d tombstones and %d counts",
			len(g.Members), len(g.Rows), len(g.Tombstones), len(g.Version))
	}
	if g.UpCounter > maxCount32 || g.RemovalCounter > maxCount64 || g.Ruling.Token > maxCount64 {
		return fmt.Errorf("gossip: counters %d, %d or %d would overflow", g.UpCounter, g.RemovalCounter, g.Ruling.Token)
	}
	for _, t := range g.Tombstones {
		if t.Number > g.RemovalCounter || t.Number+maxTombstones <= g.RemovalCounter {
			return fmt.Errorf("gossip 4: tombstone %d of %v at removal %d", t.Number, t.Node, g.RemovalCounter)
		}
		if _, isMember := g.member(t.Node); isMember {
			return fmt.Errorf("gossip 2: %v is removed and not buried", t.Node)
		}
	}
	for _, e := range g.Version {
		if g.forgotten(e.Node) || e.Count == 0 || e.Count > maxCount64 {
			return fmt.Errorf("gossip 2: the version counts %d for %v, who is forgotten", e.Count, e.Node)
		}
	}
	for _, m := range g.Members {
		if err := m.check(g.UpCounter); err != nil {
			return err
		}
	}
	for _, r := range g.Rows {
		if !isSet(r.Records, func(r Record) transport.Address { return r.Subject }) || g.removed(r.Observer) || r.Version > maxCount64 ||
			slices.ContainsFunc(r.Records, func(r Record) bool {
				return g.removed(r.Subject) || r.Evidence == NoEvidence || r.Evidence > EvidenceGone || r.Quiet < 0
			}) {
			return fmt.Errorf("gossip 1 or 2: row of %v, version %d, %d records", r.Observer, r.Version, len(r.Records))
		}
	}
	return nil
}

// check tells what makes a member's record impossible.
func (m Member) check(upCounter uint32) error {
	switch {
	case transport.CheckName("node", m.Name) != nil:
		return fmt.Errorf("gossip: %w", transport.CheckName("node", m.Name))
	case m.Status == NoStatus || m.Status >= Removed:
		return fmt.Errorf("gossip: %v has status %d", m.Address, m.Status)
	case m.UpNumber > upCounter || m.Status == Up && m.UpNumber == 0:
		return fmt.Errorf("gossip 3: %v has age %d of %d", m.Address, m.UpNumber, upCounter)
	case !sortedKeys(m.Meta):
		return fmt.Errorf("gossip: Meta of %v is not sorted", m.Address)
	case m.Fenced && m.Status != Down:
		return fmt.Errorf("gossip: %v is fenced and %v", m.Address, m.Status)
	}
	return nil
}

// isSet tells whether the list is strictly sorted by address.
func isSet[T any](list []T, address func(T) transport.Address) bool {
	for i := 1; i < len(list); i++ {
		if address(list[i-1]).Compare(address(list[i])) >= 0 {
			return false
		}
	}
	return true
}
