package membership

import (
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A shape is what follows from a gossiped state for everybody alike, whoever has
// seen it: it is made once for a version and shared. It never changes.
type shape struct {
	rule     evidenceRule
	ring     ring
	evidence []Evidence // against the members, in their order
	// accused are the members against whom anybody who is not Down holds anything,
	// troubled those that are unreachable, down the Down ones, fenced or not; in
	// order, as places in Members.
	accused, troubled, down []int
	quiet                   []time.Duration // the longest that any observer had waited for each
	full                    SeenSet         // the Up and Leaving members
	fulls, joining          int             // how many those are, and how many are Joining or WeaklyUp
	// must are those who have to see the view for it to converge: the full ones.
	// Before the first is Up the joining ones too, or two of them could each take
	// itself for the leader and make all others Up.
	must SeenSet
	// leader is who leads in the eyes of all but perhaps itself, or -1.
	leader           int
	byAddress, byAge []MemberView
	// digest and changes stand for the version.
	digest  Digest
	changes uint64
	// barred is a fingerprint of who is Down or removed. Who has the same counts on
	// everybody else.
	barred uint64
	wrong  error // what check says of the state
}

// A Digest is a fingerprint of a version: 16 bytes in place of a clock.
type Digest [2]uint64

// A memo keeps the shape of a state, and is shared by states that differ only in
// who has seen them. It may be asked from several goroutines.
type memo struct {
	once  sync.Once
	shape *shape
}

// shaped returns the shape of the state under a rule.
func (g *Gossip) shaped(rule evidenceRule) *shape {
	if g.memo == nil {
		return newShape(g, rule)
	}
	g.memo.once.Do(func() { g.memo.shape = newShape(g, rule) })
	if g.memo.shape.rule != rule {
		return newShape(g, rule)
	}
	return g.memo.shape
}

func newShape(g *Gossip, rule evidenceRule) *shape {
	s := &shape{rule: rule, wrong: g.checkAll(), full: newSeenSet(len(g.Members)), leader: -1}
	if s.wrong != nil {
		return s
	}
	s.ring, s.must = newRing(g.Members), s.full
	if g.UpCounter == 0 {
		s.must = newSeenSet(len(g.Members))
	}
	s.evidence, s.accused = g.weighRows(rule, s.ring)
	s.quiet = g.quiet()
	for i, r := range g.Members {
		switch r.Status {
		case Up, Leaving:
			s.full.add(i)
			s.fulls++
		case Joining, WeaklyUp:
			s.joining++
			if g.UpCounter == 0 {
				s.must.add(i)
			}
		case Down:
			s.down = append(s.down, i)
			s.barred ^= mix(ringPlace(r.Address))
		}
	}
	for _, t := range g.Tombstones {
		s.barred ^= mix(ringPlace(t.Node) + 1)
	}
	s.barred = mix(s.barred + mix(g.RemovalCounter+ringPlace(g.Founder)))
	s.digest, s.changes = g.Version.digest(ringPlace(g.Founder))
	s.conclude(g)
	return s
}

// conclude makes what follows from the evidence.
func (s *shape) conclude(g *Gossip) {
	s.troubled = nil
	for i, e := range s.evidence {
		if e != NoEvidence {
			s.troubled = append(s.troubled, i)
		}
	}
	s.leader = g.leaderPlace(s.evidence, -1)
	s.makeViews(g)
}

// seenFrom is the shape as one member has to see it, which hardly ever differs.
func (s *shape) seenFrom(g *Gossip, self int) *shape {
	if s.wrong != nil || len(s.accused) == 0 {
		return s
	}
	evidence := g.unheardFrom(self, g.accusations(), s.rule, s.ring, s.evidence, nil)
	if evidence == nil {
		return s
	}
	own := *s
	own.evidence = evidence
	own.conclude(g)
	return &own
}

// makeViews makes the lists of the views.
func (s *shape) makeViews(g *Gossip) {
	s.byAddress = make([]MemberView, len(g.Members))
	for i, r := range g.Members {
		s.byAddress[i] = MemberView{Member: r, Reachable: s.evidence[i] == NoEvidence, Evidence: s.evidence[i]}
	}
	s.byAge = slices.Clone(s.byAddress)
	slices.SortFunc(s.byAge, func(a, b MemberView) int { return a.CompareAge(b.Member) })
}

// digest is a fingerprint of the clock and of whose it is, and the sum of its counts: of two
// versions that differ, the one with the lower sum does not cover the other.
func (v VectorClock) digest(founder uint64) (d Digest, changes uint64) {
	d[0], d[1] = founder, mix(founder)
	for _, e := range v {
		h := ringPlace(e.Node)
		d[0] += mix(h ^ mix(e.Count))
		d[1] += mix(h + mix(e.Count+1))
		changes += e.Count
	}
	return d, changes
}

// leaderPlace is where the leader in the eyes of the member at self stands in
// Members: the first Up or Leaving member by address that is reachable. Where
// there is none it is the founder, who alone knows whom it admitted first, or
// else the first that is joining, and then the first that is exiting, so that the
// last ones can leave. Down members never lead.
func (g *Gossip) leaderPlace(evidence []Evidence, self int) int {
	joining, exiting := -1, -1
	for i, m := range g.Members {
		if m.Status == Down || i != self && evidence[i] != NoEvidence {
			continue
		}
		switch {
		case m.Status == Up || m.Status == Leaving:
			return i
		case m.Status == Exiting && exiting < 0:
			exiting = i
		case m.Status != Exiting && (joining < 0 || m.Address == g.Founder):
			joining = i
		}
	}
	if joining < 0 {
		return exiting
	}
	return joining
}

// convergence says in words what keeps the view from converging, or "".
func (g *Gossip) convergence(s *shape) string {
	unseen := g.Seen.missing(s.must)
	for _, i := range s.troubled {
		m := g.Members[i]
		if unseen >= 0 && unseen < i {
			break
		}
		if m.Status != Down && m.Status != Exiting {
			if observer := g.observer(m.Address); !observer.IsZero() {
				return m.Name + " is " + s.evidence[i].String() + " to " + observer.Name
			}
			return m.Name + " is quarantined"
		}
	}
	if unseen >= 0 {
		return g.Members[unseen].Name + " has not seen the view"
	}
	return ""
}

// addresses are those of places in Members.
func (g *Gossip) addresses(places []int) []transport.Address {
	nodes := make([]transport.Address, len(places))
	for i, p := range places {
		nodes[i] = g.Members[p].Address
	}
	return nodes
}
