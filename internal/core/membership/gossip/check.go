package gossip

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// Limits of counters, which no cluster reaches. States with higher counters are refused, because
// after a forged counter the next ones could overflow.
const (
	maxCount32 = 1 << 30
	maxCount64 = 1 << 60
)

func checkSeen(g *State) error {
	if !g.Seen.Fits(len(g.Members)) {
		return fmt.Errorf("gossip: Seen has %d words, which is wrong for %d members", len(g.Seen), len(g.Members))
	}
	return nil
}

func checkAllButSeen(g *State) error {
	if g.Founder.IsZero() {
		return fmt.Errorf("gossip: the state has no founder")
	}
	sorted := isSet(g.Members, func(m Member) transport.Address { return m.Address }) &&
		isSet(g.Rows, func(r ObserverRow) transport.Address { return r.Observer }) &&
		isSet(g.Tombstones, func(t Tombstone) transport.Address { return t.Node }) &&
		isSet(g.Version, func(e ClockEntry) transport.Address { return e.Node })
	if !sorted {
		return fmt.Errorf("gossip: a list is not sorted, or has an address twice: %d members, %d rows, %d tombstones, %d counts",
			len(g.Members), len(g.Rows), len(g.Tombstones), len(g.Version))
	}
	if g.UpCounter > maxCount32 || g.RemovalCounter > maxCount64 || g.Ruling.Token > maxCount64 {
		return fmt.Errorf("gossip: UpCounter %d, RemovalCounter %d or lease token %d is too high", g.UpCounter, g.RemovalCounter, g.Ruling.Token)
	}
	for _, t := range g.Tombstones {
		if t.Number > g.RemovalCounter || t.Number+MaxTombstones <= g.RemovalCounter {
			return fmt.Errorf("gossip: number %d of the tombstone of %v is inconsistent with RemovalCounter %d", t.Number, t.Node, g.RemovalCounter)
		}
		if _, isMember := g.Member(t.Node); isMember {
			return fmt.Errorf("gossip: %v has a tombstone and is still a member", t.Node)
		}
	}
	for _, e := range g.Version {
		if g.Forgotten(e.Node) || e.Count == 0 || e.Count > maxCount64 {
			return fmt.Errorf("gossip: the entry of node %v in the version has count %d: either it is not between 1 and 2^60, or the node is forgotten", e.Node, e.Count)
		}
	}
	for _, m := range g.Members {
		if err := m.check(g.UpCounter); err != nil {
			return err
		}
	}
	for _, r := range g.Rows {
		if !isSet(r.Records, func(r Record) transport.Address { return r.Subject }) || g.Removed(r.Observer) || r.Version > maxCount64 ||
			slices.ContainsFunc(r.Records, func(r Record) bool {
				return g.Removed(r.Subject) || r.Evidence == NoEvidence || r.Evidence > EvidenceGone || r.Quiet < 0
			}) {
			return fmt.Errorf("gossip: the row of %v is invalid: version %d, %d records", r.Observer, r.Version, len(r.Records))
		}
	}
	return nil
}

func isSet[T any](list []T, address func(T) transport.Address) bool {
	for i := 1; i < len(list); i++ {
		if address(list[i-1]).Compare(address(list[i])) >= 0 {
			return false
		}
	}
	return true
}
