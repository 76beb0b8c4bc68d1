package gossip

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// JoinInFull is State.Join without the shortcuts for states that are not concurrent. Both must give
// the same results.
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

// A Ruling names the last holder of the lease that decides splits, and the holder's token. A side
// that knows the ruling may take the lease over from the holder. A side that does not know it
// cannot.
type Ruling struct {
	Holder transport.Address // the node that took the lease
	Token  uint64            // the store's token for it; later holdings have higher ones
}

func mergeRuling(a, b Ruling) Ruling {
	if b.Token > a.Token || b.Token == a.Token && b.Holder.Compare(a.Holder) > 0 {
		return b
	}
	return a
}
