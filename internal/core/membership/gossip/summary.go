package gossip

import (
	"slices"
	"sync"
	"time"
)

// A Summary holds the conclusions from a state that do not depend on Seen and are the same at all
// nodes. It is computed once for each version. It never changes, so equal pointers mean equal
// conclusions.
type Summary struct {
	Ring     Ring
	Evidence []Evidence // against the members, in their order
	// Accused are the members accused in a record of a member that is not Down, Unreachable those
	// with evidence against them, and Down all Down members. Each is a sorted list of indexes of
	// Members.
	Accused, Unreachable, Down []int
	// Quiet has for each member, in their order, how long it had not answered when a record against
	// it was made; Absent has how long the broker had known no subscription of it. Both are the
	// longest time that an observer recorded. Absent counts only records with the evidence Cut, Lost
	// or Gone, because the silence that another observer reports proves no absence.
	Quiet, Absent []time.Duration
	Full          SeenSet // the Up and Leaving members
	Fulls         int     // the number of Up and Leaving members
	Joining       int     // the number of Joining and WeaklyUp members
	// Must are the members that have to see the view for it to converge: the Up, Leaving and Exiting
	// ones. A member removed before it knew that it was Exiting would still count its own vote, and
	// could down the others. Before the first member is Up, the joining ones are included too.
	// Otherwise two of them could each consider itself the leader and make all others Up.
	Must             SeenSet
	ByAddress, ByAge []MemberView // the lists of a view
	// Digest and Changes are the fingerprint of the version and the sum of its counts.
	Digest  Digest
	Changes uint64
	// Barred is a fingerprint of the Down and removed nodes. Nodes with the same fingerprint count
	// on the same members.
	Barred uint64

	rule      Rule
	leader    int   // the index of the leader in the view of all nodes except perhaps the leader itself, or -1
	malformed error // the result of checkAllButSeen
}

// summaryOnce keeps a state's summary for all states that differ only in Seen. It is safe for
// concurrent use.
type summaryOnce struct {
	once sync.Once
	made *Summary
}

func newSummary(g *State, rule Rule) *Summary {
	s := &Summary{rule: rule, malformed: checkAllButSeen(g), Full: NewSeenSet(len(g.Members)), leader: -1}
	if s.malformed != nil {
		return s
	}
	s.Ring, s.Must = NewRing(g.Members), NewSeenSet(len(g.Members))
	list := s.Accusations(g)
	s.Accused, s.Evidence = list.subjects(), list.Weigh(nil)
	s.Quiet, s.Absent = quietTimes(g, EvidenceSilent), quietTimes(g, EvidenceCut)
	for i, r := range g.Members {
		switch r.Status {
		case Up, Leaving:
			s.Full.Add(i)
			s.Must.Add(i)
			s.Fulls++
		case Exiting:
			s.Must.Add(i)
		case Joining, WeaklyUp:
			s.Joining++
			if g.UpCounter == 0 {
				s.Must.Add(i)
			}
		case Down:
			s.Down = append(s.Down, i)
			s.Barred ^= mix(RingPlace(r.Address))
		}
	}
	for _, t := range g.Tombstones {
		s.Barred ^= mix(RingPlace(t.Node) + 1)
	}
	s.Barred = mix(s.Barred + mix(g.RemovalCounter+RingPlace(g.Founder)))
	s.Digest, s.Changes = g.Version.digest(RingPlace(g.Founder))
	s.conclude(g)
	return s
}

// Accusations returns the records of g that count, for callers that weigh them without some
// members.
func (s *Summary) Accusations(g *State) *Accusations { return newAccusations(g, s.rule, s.Ring) }

func (s *Summary) conclude(g *State) {
	s.Unreachable = nil
	for i, e := range s.Evidence {
		if e != NoEvidence {
			s.Unreachable = append(s.Unreachable, i)
		}
	}
	s.leader = leaderIndex(g, s.Evidence, -1)
	s.makeViews(g)
}

func (s *Summary) seenBy(g *State, self int) *Summary {
	if s.malformed != nil || len(s.Accused) == 0 {
		return s
	}
	evidence := s.Accusations(g).UnheardBy(self, s.Evidence, nil)
	if evidence == nil {
		return s
	}
	own := *s
	own.Evidence = evidence
	own.conclude(g)
	return &own
}

func (s *Summary) makeViews(g *State) {
	s.ByAddress = make([]MemberView, len(g.Members))
	for i, r := range g.Members {
		s.ByAddress[i] = MemberView{Member: r, Reachable: s.Evidence[i] == NoEvidence, Evidence: s.Evidence[i]}
	}
	s.ByAge = slices.Clone(s.ByAddress)
	slices.SortFunc(s.ByAge, func(a, b MemberView) int { return a.CompareAge(b.Member) })
}

// convergence returns what prevents convergence, or "" if the view has converged.
func (s *Summary) convergence(g *State) string {
	unseen := g.Seen.missing(s.Must)
	for _, i := range s.Unreachable {
		m := g.Members[i]
		if unseen >= 0 && unseen < i {
			break
		}
		if m.Status != Down {
			if observer := g.observer(m.Address); !observer.IsZero() {
				return m.Name + " is " + s.Evidence[i].String() + " to " + observer.Name
			}
			return m.Name + " is quarantined"
		}
	}
	if unseen >= 0 {
		return g.Members[unseen].Name + " has not seen the view"
	}
	return ""
}

// leaderIndex returns the index of the leader as the member at index self sees it, or -1. It is the
// first reachable Up or Leaving member by address. If there is none, it is the founder, because
// only the founder knows the first admitted members. Then come the first joining member and the
// first exiting one. Down members never lead.
func leaderIndex(g *State, evidence []Evidence, self int) int {
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

func quietTimes(g *State, least Evidence) []time.Duration {
	quiet := make([]time.Duration, len(g.Members))
	for _, row := range g.Rows {
		for _, r := range row.Records {
			if i, ok := g.Index(r.Subject); ok && r.Evidence >= least {
				quiet[i] = max(quiet[i], r.Quiet)
			}
		}
	}
	return quiet
}
