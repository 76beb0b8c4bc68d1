package gossip

import "slices"

// JoinInFull is State.Join without the shortcuts for states that are not concurrent. Both must give
// the same result.
func JoinInFull(g, o *State) (*State, Ordering) {
	m := &State{
		Founder:        g.Founder,
		UpCounter:      max(g.UpCounter, o.UpCounter),
		RemovalCounter: max(g.RemovalCounter, o.RemovalCounter),
		Ruling:         mergeRuling(g.Ruling, o.Ruling),
		Tombstones:     mergeTombstones(g.Tombstones, o.Tombstones),
		summary:        &summaryOnce{},
	}
	m.bury()
	m.Members = slices.DeleteFunc(mergeMembers(g.Members, o.Members), func(x Member) bool { return m.Removed(x.Address) })
	m.Rows = mergeRows(g.Rows, o.Rows, m.Removed)
	mine, theirs := g.Version.Prune(m.Forgotten), o.Version.Prune(m.Forgotten)
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
		m.Seen = NewSeenSet(len(m.Members)) // nobody has seen the merged version yet
	}
	return m, order
}
