package gossip

import "slices"

// A Detection decides how many observers must accuse a silent or cut member to make it unreachable.
// For a gone member one observer suffices, because Gone is proof.
type Detection uint8

// The kinds of detection.
const (
	// DetectionManyEdges makes a member unreachable if more of its observers accuse it than do
	// not, or if this node hears an accuser but not the member, directly or through others. So one
	// broken connection between two members, or one member that cannot hear, makes no other member
	// unreachable. After Rapid (Suresh and others, USENIX ATC 2018), with the majority in place of
	// its two watermarks.
	DetectionManyEdges Detection = iota
	// DetectionSingleObserver makes a member unreachable when one observer accuses it.
	// It is the rule of the Akka Cluster specification.
	DetectionSingleObserver
)

// String returns the name of the kind of detection.
func (d Detection) String() string {
	switch d {
	case DetectionManyEdges:
		return "many edges"
	case DetectionSingleObserver:
		return "single observer"
	}
	return "unknown"
}

// A Rule decides which members become unreachable by the records of observers. It should be the
// same at all members.
type Rule struct {
	Detection   Detection
	MonitoredBy int // the number of neighbours that a member watches
}

// An Accusation is one observer's record against a member. Subject and Observer are indexes of
// Members.
type Accusation struct {
	Subject, Observer int
	Evidence          Evidence
}

// Accusations are the records of a state that count, and the rule for weighing them. Records of
// Down observers do not count.
type Accusations struct {
	state *State
	rule  Rule
	ring  Ring
	list  []Accusation // by subject
}

func newAccusations(g *State, rule Rule, ring Ring) *Accusations {
	a := &Accusations{state: g, rule: rule, ring: ring}
	for _, row := range g.Rows {
		o, ok := g.Index(row.Observer)
		if !ok || g.Members[o].Status == Down {
			continue
		}
		for _, r := range row.Records {
			if s, ok := g.Index(r.Subject); ok {
				a.list = append(a.list, Accusation{s, o, r.Evidence})
			}
		}
	}
	slices.SortStableFunc(a.list, func(a, b Accusation) int { return a.Subject - b.Subject })
	return a
}

// List returns all accusations, ordered by subject.
func (a *Accusations) List() []Accusation { return a.list }

// EachSubject calls f for each accused member, with the accusations against it.
func (a *Accusations) EachSubject(f func(subject int, against []Accusation)) {
	for list := a.list; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].Subject == list[0].Subject {
			n++
		}
		f(list[0].Subject, list[:n])
		list = list[n:]
	}
}

func (a *Accusations) subjects() (accused []int) {
	a.EachSubject(func(subject int, _ []Accusation) { accused = append(accused, subject) })
	return accused
}

// ByObserver reports whether the list has an accusation by the observer.
func ByObserver(list []Accusation, observer int) bool {
	return slices.ContainsFunc(list, func(a Accusation) bool { return a.Observer == observer })
}

// Weigh returns the evidence against each member, in the order of Members. It ignores accusations
// by or against the members marked in out, which may be nil.
func (a *Accusations) Weigh(out []bool) []Evidence {
	g := a.state
	evidence := make([]Evidence, len(g.Members))
	mute := make([]bool, len(g.Members))
	copy(mute, out)
	// round makes unreachable at once all members for which reason returns true.
	round := func(reason func(subject int, against []Accusation, strongest Evidence) bool) bool {
		var found []int
		a.EachSubject(func(subject int, against []Accusation) {
			strongest := NoEvidence
			for _, x := range against {
				if out == nil || !out[x.Observer] {
					strongest = max(strongest, x.Evidence)
				}
			}
			if strongest != NoEvidence && evidence[subject] == NoEvidence && !mute[subject] && reason(subject, against, strongest) {
				evidence[subject] = strongest
				found = append(found, subject)
			}
		})
		for _, i := range found {
			mute[i] = true
		}
		return len(found) > 0
	}
	// One record of Gone suffices and, under DetectionSingleObserver, one accusation of any kind.
	round(func(_ int, _ []Accusation, strongest Evidence) bool {
		return strongest == EvidenceGone || a.rule.Detection == DetectionSingleObserver
	})
	for i, r := range g.Members {
		if r.Quarantined && !mute[i] {
			evidence[i], mute[i] = EvidenceSilent, true
		}
	}
	if a.rule.Detection == DetectionSingleObserver {
		return evidence
	}
	// An unreachable member no longer counts as an observer, whether it accuses or not. That may
	// change the result for other members, so a partition is found round by round.
	for round(func(subject int, against []Accusation, _ Evidence) bool {
		return a.outvoted(mute, subject, against)
	}) {
	}
	return evidence
}

// UnheardBy returns the evidence with a further rule applied for the member self: an accused member
// is unreachable if self hears an accuser, directly or through heard members, but not the accused
// member. So both sides of a partition detect the partition, even a small side whose observers are
// mostly on the other side. A member that hears nobody but is heard by all harms only itself.
// UnheardBy returns nil if the rule adds nothing.
func (a *Accusations) UnheardBy(self int, evidence []Evidence, out []bool) []Evidence {
	if a.rule.Detection != DetectionManyEdges || len(a.list) == 0 || self < 0 {
		return nil
	}
	accused := make([]bool, len(a.state.Members))
	for _, x := range a.list {
		accused[x.Subject] = true
	}
	// An observer that watches a member only because nearer observers fell out has not had the time
	// to miss it.
	heard := a.HeardBy(self, evidence, out, func(i int) bool { return !accused[i] })
	var added []Evidence
	for _, x := range a.list {
		if heard[x.Subject] || !heard[x.Observer] || evidence[x.Subject] != NoEvidence || out != nil && out[x.Subject] {
			continue
		}
		if added == nil {
			added = slices.Clone(evidence)
		}
		added[x.Subject] = max(added[x.Subject], x.Evidence)
	}
	return added
}

// HeardBy returns which members self hears, directly or through other heard members. A member hears
// the members that it watches and does not accuse. An observer may watch a member only because
// nearer observers are unreachable. Such an observer counts only if late returns true for the
// watched member.
func (a *Accusations) HeardBy(self int, evidence []Evidence, out []bool, late func(int) bool) []bool {
	g := a.state
	against := make(map[int][]Accusation)
	a.EachSubject(func(subject int, list []Accusation) { against[subject] = list })
	heard := make([]bool, len(g.Members))
	heard[self] = true
	for queue := []int{self}; len(queue) > 0; queue = queue[1:] {
		watched, passed := 0, 0
		a.ring.After(RingPlace(g.Members[queue[0]].Address), func(i int) bool {
			passed++
			if evidence[i] == NoEvidence && (out == nil || !out[i]) {
				watched++
				if !heard[i] && (passed <= a.rule.MonitoredBy || late(i)) && !ByObserver(against[i], queue[0]) {
					heard[i] = true
					queue = append(queue, i)
				}
			}
			return watched < a.rule.MonitoredBy
		})
	}
	return heard
}

// outvoted reports whether more observers accuse the subject than watch it without accusing it.
// Observers marked in mute are not replaced by members further away. A replacement has had no time
// to miss the subject, so it would vote for every member across a partition.
func (a *Accusations) outvoted(mute []bool, subject int, against []Accusation) bool {
	accusing := 0
	for _, x := range against {
		if x.Observer != subject && !mute[x.Observer] {
			accusing++
		}
	}
	if accusing == 0 {
		return false
	}
	observers, content := 0, 0
	a.ring.Before(RingPlace(a.state.Members[subject].Address), func(i int) bool {
		if i == subject {
			return false // around the whole ring
		}
		observers++
		if !mute[i] && !ByObserver(against, i) {
			content++
		}
		return observers < a.rule.MonitoredBy && content < accusing
	})
	return accusing > content
}
