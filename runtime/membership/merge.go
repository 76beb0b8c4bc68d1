package membership

import "slices"

// Merge joins two states of one cluster. Of a member in both the higher status
// stands; a member in one only is kept unless the other has its tombstone. Clocks
// lose forgotten nodes before they are compared: otherwise the count of one makes
// versions differ for ever. Seen survives only where the versions allow it: it
// belongs to one version.
func (g *Gossip) Merge(o *Gossip) *Gossip {
	m, _ := g.join(o)
	return m
}

// join is Merge, and tells how the version of g stands to that of o.
//
// A version covers another only if its state holds all of the other's, and a
// version is of one state alone (clocks keep the counts of removed nodes as long
// as their tombstones for that). So only concurrent states need merging.
func (g *Gossip) join(o *Gossip) (*Gossip, Ordering) {
	order := g.Version.Compare(o.Version)
	switch {
	case order == Same && len(g.Members) == len(o.Members):
		return g.withAllSeen(o.Seen), Same
	case order == After:
		return g, After
	case order == Before:
		return o, Before
	}
	return g.joinAll(o)
}

// joinAll is join without the short ways.
func (g *Gossip) joinAll(o *Gossip) (*Gossip, Ordering) {
	m := &Gossip{
		Founder:        g.Founder,
		UpCounter:      max(g.UpCounter, o.UpCounter),
		RemovalCounter: max(g.RemovalCounter, o.RemovalCounter),
		Ruling:         mergeRuling(g.Ruling, o.Ruling),
		Tombstones:     mergeTombstones(g.Tombstones, o.Tombstones),
		memo:           &memo{},
	}
	m.bury()
	m.Members = slices.DeleteFunc(mergeMembers(g.Members, o.Members), func(x Member) bool { return m.removed(x.Address) })
	m.Rows = mergeRows(g.Rows, o.Rows, m.removed)
	mine, theirs := g.Version.Prune(m.forgotten), o.Version.Prune(m.forgotten)
	m.Version = mine.Merge(theirs)
	order := mine.Compare(theirs)
	switch order {
	case Same:
		m.Seen = g.Seen.movedTo(g.Members, m.Members).union(o.Seen.movedTo(o.Members, m.Members))
	case After:
		m.Seen = g.Seen.movedTo(g.Members, m.Members)
	case Before:
		m.Seen = o.Seen.movedTo(o.Members, m.Members)
	case Concurrent:
		m.Seen = newSeenSet(len(m.Members)) // nobody has seen the merged version yet
	}
	return m, order
}

func mergeTombstones(a, b []Tombstone) []Tombstone {
	merged := slices.Clone(a)
	for _, t := range b {
		i, ok := slices.BinarySearchFunc(merged, t.Node, compareTombstone)
		if !ok {
			merged = slices.Insert(merged, i, t)
			continue
		}
		// Two leaders removed it, in two halves of a cluster.
		merged[i].Number = max(merged[i].Number, t.Number)
		merged[i].Left = merged[i].Left && t.Left
	}
	return merged
}

func mergeMembers(a, b []Member) []Member {
	merged := make([]Member, 0, max(len(a), len(b)))
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i].Compare(b[j].Address) < 0:
			merged = append(merged, a[i])
			i++
		case i == len(a) || a[i].Compare(b[j].Address) > 0:
			merged = append(merged, b[j])
			j++
		default:
			merged = append(merged, mergeMember(a[i], b[j]))
			i++
			j++
		}
	}
	return merged
}

// mergeMember joins two records of one member. Roles and Meta are the same in
// both. Of two ages the older one stands: both were given out, and the member
// may have acted on the older.
func mergeMember(a, b Member) Member {
	a.Status = max(a.Status, b.Status)
	a.ExitReady = a.ExitReady || b.ExitReady
	a.Forced = a.Forced || b.Forced
	a.Judged = a.Judged || b.Judged
	a.Fenced = a.Fenced || b.Fenced
	a.Quarantined = a.Quarantined || b.Quarantined
	if b.UpNumber != 0 && (a.UpNumber == 0 || b.UpNumber < a.UpNumber) {
		a.UpNumber = b.UpNumber
	}
	return a
}
