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
//  1. Members, Rows, Tombstones and Version are sorted by address, and no
//     address stands twice in one of them. Seen has a bit for each member.
//  2. A tombstoned node is no member, has no row and is no row's subject. Version
//     counts members and tombstoned nodes only.
//  3. A member that is or was Up has an UpNumber of at most UpCounter.
//  4. Tombstone numbers lie within the last maxTombstones of RemovalCounter.
type Gossip struct {
	Founder transport.Address // who formed the cluster; never changes
	Members []Member          // all that are not removed
	Rows    []ObserverRow     // who cannot reach whom
	// UpCounter is the highest UpNumber given out; it never falls.
	UpCounter uint32
	// RemovalCounter numbers the removals; it never falls.
	RemovalCounter uint64
	Tombstones     []Tombstone // who was removed lately
	Ruling         Ruling      // the last split that a lease decided
	Seen           SeenSet     // who has this very version
	Version        VectorClock // how often each node has changed the state

	memo *memo // what follows from the rest but Seen; nil: nothing is kept
	// ownMembers: Members is this change's own copy. Only within changedBy.
	ownMembers bool
}

// A Tombstone keeps a removed node from coming back with old gossip. The last
// maxTombstones removals are remembered: a rule without clocks, and the same at
// all nodes.
type Tombstone struct {
	Node   transport.Address // who was removed
	Number uint64            // the value of RemovalCounter at that time
	Left   bool              // removed after leaving in order
}

// maxTombstones bounds what is remembered. It is more than enough: a removal
// waits until every full member has seen the one before.
const maxTombstones = 128

func (g *Gossip) member(a transport.Address) (Member, bool) {
	i, ok := g.place(a)
	if !ok {
		return Member{}, false
	}
	return g.Members[i], true
}

// named returns the members of a name.
func (g *Gossip) named(name string) []Member {
	from, _ := g.place(transport.Address{Name: name})
	to := from
	for to < len(g.Members) && g.Members[to].Name == name {
		to++
	}
	return g.Members[from:to]
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

func (g *Gossip) seenBy(a transport.Address) bool {
	i, ok := g.place(a)
	return ok && g.Seen.Has(i)
}

// place is where a member stands in Members. It is slices.BinarySearchFunc by hand:
// it is asked for often, and a member is long to be copied.
func (g *Gossip) place(a transport.Address) (int, bool) {
	low, high := 0, len(g.Members)
	for low < high {
		middle := (low + high) / 2
		if g.Members[middle].Address.Compare(a) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(g.Members) && g.Members[low].Address == a
}

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

// withAddresses returns the list and all of more.
func withAddresses(list, more []transport.Address) []transport.Address {
	for _, a := range more {
		list = withAddress(list, a)
	}
	return list
}

// records returns all that one observer holds.
func (g *Gossip) records(observer transport.Address) []Record {
	if len(g.Rows) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(g.Rows, observer, compareRow)
	if !ok {
		return nil
	}
	return g.Rows[i].Records
}

// record returns what one observer holds against subject.
func (g *Gossip) record(observer, subject transport.Address) (Record, bool) {
	return recordOf(g.records(observer), subject)
}

// recordOf returns what one observer's records hold against subject.
func recordOf(records []Record, subject transport.Address) (Record, bool) {
	i, ok := slices.BinarySearchFunc(records, subject, compareRecord)
	if !ok {
		return Record{}, false
	}
	return records[i], true
}

func hasRecord(records []Record, subject transport.Address) bool {
	_, ok := slices.BinarySearchFunc(records, subject, compareRecord)
	return ok
}

// changedBy returns a copy that change has worked on, as a new version that only
// self has seen. Change may replace the slices, never write to what they share.
func (g *Gossip) changedBy(self transport.Address, change func(*Gossip)) *Gossip {
	next := *g
	next.memo = &memo{}
	change(&next)
	next.ownMembers = false
	next.Version = next.Version.Increment(self)
	next.Seen = newSeenSet(len(next.Members))
	if i, ok := next.place(self); ok {
		next.Seen.add(i)
	}
	return &next
}

// setMember puts a member's record in place of the one it had, if any.
func (g *Gossip) setMember(m Member) {
	i, ok := g.place(m.Address)
	if !g.ownMembers {
		g.Members, g.ownMembers = slices.Clone(g.Members), true
	}
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

// withSeen returns g as seen by a member too; the version stays.
func (g *Gossip) withSeen(a transport.Address) *Gossip {
	i, ok := g.place(a)
	if !ok || g.Seen.Has(i) {
		return g
	}
	next := *g
	next.Seen = g.Seen.with(i)
	return &next
}

// withAllSeen returns g as seen by a set too.
func (g *Gossip) withAllSeen(s SeenSet) *Gossip {
	if g.Seen.missing(s) < 0 {
		return g
	}
	next := *g
	next.Seen = g.Seen.union(s)
	return &next
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
