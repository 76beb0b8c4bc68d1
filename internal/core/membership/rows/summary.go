package rows

import (
	"cmp"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
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
	// ByAddress and ByAge are the members as views show them, with no evidence against any but
	// quarantined ones.
	ByAddress, ByAge []gossip.MemberView

	places []uint64 // of Ring
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
	slices.SortFunc(s.Ring, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(gossip.RingPlace(a.Address), gossip.RingPlace(b.Address)), a.Compare(b.Address))
	})
	for _, r := range s.Ring {
		s.places = append(s.places, gossip.RingPlace(r.Address))
	}
	s.ByAge = slices.Clone(s.ByAddress)
	slices.SortFunc(s.ByAge, func(a, b gossip.MemberView) int { return a.CompareAge(b.Member) })
	return s
}

// After calls do for the members behind self on the ring, in order, until do returns false or all
// other members were passed.
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
