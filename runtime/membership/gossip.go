package membership

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A Gossip is the cluster's state as it travels. It is a value that never
// changes once it is built: every change makes a new one, so snapshots and
// messages may share it.
//
// It is a join semilattice: [Gossip.Merge] is commutative, associative,
// idempotent and monotonic, whatever the versions say.
//
// Invariants (see check):
//  1. Members, Rows, Tombstones, Seen and Version are sorted by address, and
//     no address stands twice in one of them.
//  2. A tombstoned node is no member, has seen nothing, has no row and is no
//     row's subject. Version counts members and tombstoned nodes only.
//  3. A member that is or was Up has an UpNumber of at most UpCounter.
//  4. Tombstone numbers lie within the last maxTombstones of RemovalCounter.
type Gossip struct {
	Founder transport.Address // who formed the cluster; never changes
	Members []Member
	Rows    []ObserverRow
	// UpCounter is the highest UpNumber given out; it never falls.
	UpCounter uint32
	// RemovalCounter numbers the removals; it never falls.
	RemovalCounter uint64
	Tombstones     []Tombstone
	Ruling         Ruling              // the last split that a lease decided
	Seen           []transport.Address // who has this very version
	Version        VectorClock
}

// A Tombstone keeps a removed node from coming back with old gossip. The last
// maxTombstones removals are remembered: a rule without clocks, and the same at
// all nodes.
type Tombstone struct {
	Node   transport.Address
	Number uint64
	Left   bool // removed after leaving in order
}

// maxTombstones bounds what is remembered. It is more than enough: a removal
// waits until every full member has seen the one before.
const maxTombstones = 128

func (g *Gossip) member(a transport.Address) (Member, bool) {
	i, ok := slices.BinarySearchFunc(g.Members, a, compareMember)
	if !ok {
		return Member{}, false
	}
	return g.Members[i], true
}

func (g *Gossip) tombstone(a transport.Address) (Tombstone, bool) {
	i, ok := slices.BinarySearchFunc(g.Tombstones, a, compareTombstone)
	if !ok {
		return Tombstone{}, false
	}
	return g.Tombstones[i], true
}

func (g *Gossip) removed(a transport.Address) bool {
	_, ok := g.tombstone(a)
	return ok
}

func (g *Gossip) seenBy(a transport.Address) bool { return hasAddress(g.Seen, a) }

func hasAddress(list []transport.Address, a transport.Address) bool {
	_, ok := slices.BinarySearchFunc(list, a, transport.Address.Compare)
	return ok
}

func withAddress(list []transport.Address, a transport.Address) []transport.Address {
	i, ok := slices.BinarySearchFunc(list, a, transport.Address.Compare)
	if ok {
		return list
	}
	return slices.Insert(slices.Clone(list), i, a)
}

// record returns what one observer holds against subject.
func (g *Gossip) record(observer, subject transport.Address) (Record, bool) {
	i, ok := slices.BinarySearchFunc(g.Rows, observer, compareRow)
	if !ok {
		return Record{}, false
	}
	j, ok := slices.BinarySearchFunc(g.Rows[i].Records, subject, compareRecord)
	if !ok {
		return Record{}, false
	}
	return g.Rows[i].Records[j], true
}

// changedBy returns a copy that change has worked on, as a new version that only
// self has seen. Change may replace the slices, never write to what they share.
func (g *Gossip) changedBy(self transport.Address, change func(*Gossip)) *Gossip {
	next := *g
	change(&next)
	next.Version = next.Version.Increment(self)
	next.Seen = []transport.Address{self}
	return &next
}

// setMember puts a member's record in place of the one it had, if any.
func (g *Gossip) setMember(m Member) {
	i, ok := slices.BinarySearchFunc(g.Members, m.Address, compareMember)
	g.Members = slices.Clone(g.Members)
	if ok {
		g.Members[i] = m
		return
	}
	g.Members = slices.Insert(g.Members, i, m)
}

// remove turns a member into a tombstone.
func (g *Gossip) remove(a transport.Address, left bool) {
	g.RemovalCounter++
	i, _ := slices.BinarySearchFunc(g.Tombstones, a, compareTombstone)
	g.Tombstones = slices.Insert(slices.Clone(g.Tombstones), i, Tombstone{a, g.RemovalCounter, left})
	g.bury()
}

// bury drops what is left of tombstoned nodes, and tombstones that are too old.
// What it changes it copies first.
func (g *Gossip) bury() {
	g.Tombstones = slices.DeleteFunc(slices.Clone(g.Tombstones), func(t Tombstone) bool {
		return t.Number+maxTombstones <= g.RemovalCounter
	})
	g.Members = slices.DeleteFunc(slices.Clone(g.Members), func(m Member) bool { return g.removed(m.Address) })
	g.Rows = pruneRows(slices.Clone(g.Rows), g.removed)
	g.Seen = slices.DeleteFunc(slices.Clone(g.Seen), g.removed)
	g.Version = g.Version.Prune(g.forgotten)
}

// forgotten tells whether nothing is left of a node, not even a tombstone. Only
// then does it lose its count in Version: pruned with the removal, the version
// would not cover what the removed node had done last, and two versions would be
// the same where one lacks the member that it admitted before it died.
func (g *Gossip) forgotten(a transport.Address) bool {
	_, ok := g.member(a)
	return !ok && !g.removed(a)
}

// withSeen returns g as seen by a too; the version stays.
func (g *Gossip) withSeen(a transport.Address) *Gossip {
	if g.seenBy(a) {
		return g
	}
	next := *g
	next.Seen = withAddress(g.Seen, a)
	return &next
}

// leaderOf returns who leads in the eyes of self: the first Up or Leaving member
// by address that is reachable. Where there is none it is the founder, who alone
// knows whom it admitted first, or else the first that is joining, and then the
// first that is exiting, so that the last ones can leave. Down members never lead.
func (g *Gossip) leaderOf(self transport.Address, evidence []Evidence) transport.Address {
	var joining, exiting transport.Address
	for i, m := range g.Members {
		if m.Status == Down || m.Address != self && evidence[i] != NoEvidence {
			continue
		}
		switch {
		case m.Status == Up || m.Status == Leaving:
			return m.Address
		case m.Status == Exiting && exiting.IsZero():
			exiting = m.Address
		case m.Status != Exiting && (joining.IsZero() || m.Address == g.Founder):
			joining = m.Address
		}
	}
	if joining.IsZero() {
		return exiting
	}
	return joining
}

// convergence says in words what keeps the view from converging, or "". Before
// the first member is Up, the joining ones must have seen the view too: else two
// of them could each take itself for the leader and make all others Up.
func (g *Gossip) convergence(evidence []Evidence) string {
	for i, m := range g.Members {
		if m.Status == Down || m.Status == Exiting {
			continue
		}
		if evidence[i] != NoEvidence {
			if observer := g.observer(m.Address); !observer.IsZero() {
				return m.Name + " is " + evidence[i].String() + " to " + observer.Name
			}
			return m.Name + " is quarantined"
		}
		if (m.Status == Up || m.Status == Leaving || g.UpCounter == 0) && !g.seenBy(m.Address) {
			return m.Name + " has not seen the view"
		}
	}
	return ""
}

// observer is the first who holds anything against subject, Down members left out.
func (g *Gossip) observer(subject transport.Address) transport.Address {
	for _, row := range g.Rows {
		if m, ok := g.member(row.Observer); !ok || m.Status == Down {
			continue
		}
		if _, ok := slices.BinarySearchFunc(row.Records, subject, compareRecord); ok {
			return row.Observer
		}
	}
	return transport.Address{}
}
