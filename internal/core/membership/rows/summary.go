package rows

import (
	"cmp"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A Summary has what every member concludes from a table. It is computed once for a table and
// shared.
type Summary struct {
	Ages      []*Row // the active members from the oldest to the youngest
	Ring      []*Row // the members, joining ones included, by their place on the hashed ring
	Down      []*Row // who is dead and not fenced
	Suspected []*Row // the members against which somebody has voted, or that are quarantined
	Ended     []*Row // who has left, or is dead and fenced
	EverUp    bool   // somebody was active once
	Bytes     int    // about the size of the table in a message that is not compressed
	// ByAddress and ByAge are the members as views show them, with evidence only against
	// quarantined ones.
	ByAddress, ByAge []gossip.MemberView

	places []uint64 // of Ring

	mu     sync.Mutex
	marked []marked // the last keptMarked results of Marked
}

// A Mark is evidence that a view shows against a member.
type Mark struct {
	Node     transport.Address
	Evidence gossip.Evidence
}

type marked struct {
	marks            []Mark
	byAddress, byAge []gossip.MemberView
}

// keptMarked is how many results of Marked a Summary keeps. A member that rebuilds its view with
// unchanged marks reuses the kept lists.
const keptMarked = 8

// Marked returns copies of ByAddress and ByAge in which each member with a mark is unreachable,
// with the mark's evidence. For equal marks it mostly returns the same copies.
func (s *Summary) Marked(marks []Mark) (byAddress, byAge []gossip.MemberView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.marked {
		if slices.Equal(m.marks, marks) {
			return m.byAddress, m.byAge
		}
	}
	m := marked{marks, slices.Clone(s.ByAddress), slices.Clone(s.ByAge)}
	for _, mark := range marks {
		for _, list := range [][]gossip.MemberView{m.byAddress, m.byAge} {
			i := slices.IndexFunc(list, func(o gossip.MemberView) bool { return o.Address == mark.Node })
			list[i].Reachable, list[i].Evidence = false, mark.Evidence
		}
	}
	if len(s.marked) == keptMarked {
		s.marked = slices.Delete(s.marked, 0, 1)
	}
	s.marked = append(s.marked, m)
	return m.byAddress, m.byAge
}

// summary computes a Summary at most once.
type summary struct {
	once sync.Once
	made *Summary
}

// Summary returns the conclusions from the table.
func (t *Table) Summary() *Summary {
	t.summary.once.Do(func() { t.summary.made = newSummary(t) })
	return t.summary.made
}

func newSummary(t *Table) *Summary {
	s := &Summary{}
	for i := range t.Rows {
		r := &t.Rows[i]
		s.EverUp = s.EverUp || r.UpNumber != 0
		s.Bytes += 128 + gossip.DescriptionSize(r.Roles, r.Meta, r.Compat) + 24*len(r.Suspicions)
		switch {
		case r.Status == gossip.Removed || r.Fenced:
			s.Ended = append(s.Ended, r)
			continue
		case r.Status == gossip.Down:
			s.Down = append(s.Down, r)
		default:
			s.Ring = append(s.Ring, r)
			if r.Active() {
				s.Ages = append(s.Ages, r)
			}
			if len(r.Suspicions) > 0 || r.Quarantined {
				s.Suspected = append(s.Suspected, r)
			}
		}
		v := gossip.MemberView{Member: r.Member, Reachable: true}
		if r.Quarantined {
			v.Reachable, v.Evidence = false, gossip.EvidenceSilent
		}
		s.ByAddress = append(s.ByAddress, v)
	}
	slices.SortFunc(s.Ages, func(a, b *Row) int { return cmp.Compare(a.UpNumber, b.UpNumber) })
	s.sortRing()
	s.ByAge = slices.Clone(s.ByAddress)
	slices.SortFunc(s.ByAge, func(a, b gossip.MemberView) int { return a.CompareAge(b.Member) })
	return s
}

// sortRing sorts the ring by places. Hashing takes longer than sorting, so each place is computed
// once.
func (s *Summary) sortRing() {
	type placed struct {
		at  uint64
		row *Row
	}
	all := make([]placed, 0, len(s.Ring))
	for _, r := range s.Ring {
		all = append(all, placed{gossip.RingPlace(r.Address), r})
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.at, b.at), a.row.Compare(b.row.Address)) })
	s.places = make([]uint64, 0, len(all))
	for i, p := range all {
		s.Ring[i], s.places = p.row, append(s.places, p.at)
	}
}

// After calls the function do for each member except self, in the order of the ring, beginning
// behind self. It stops when do returns false.
func (s *Summary) After(self *Row, do func(*Row) bool) {
	at, _ := slices.BinarySearch(s.places, gossip.RingPlace(self.Address))
	for at < len(s.Ring) && s.Ring[at].Address != self.Address {
		at++
	}
	for k := 1; k < len(s.Ring); k++ {
		if !do(s.Ring[(at+k)%len(s.Ring)]) {
			return
		}
	}
}
