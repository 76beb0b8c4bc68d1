package membership

import "slices"

// A Detection says how many observers it takes to make a member unreachable that
// is Silent or Cut. One suffices for one that is Gone: that is proof.
type Detection uint8

// The ways of detection.
const (
	// DetectionManyEdges: a member is unreachable when more observers accuse it
	// than watchers hold nothing against it, or when it is accused and nobody hears
	// it whom this node hears, itself or through others. So a broken way between two
	// members, or one member that cannot hear, makes nobody else unreachable. After
	// Rapid (Suresh and others, USENIX ATC 2018), with the majority in place of its
	// two watermarks.
	DetectionManyEdges Detection = iota
	// DetectionSingleObserver: one observer suffices. It is the rule of the Akka
	// Cluster specification.
	DetectionSingleObserver
)

// String names the way of detection.
func (d Detection) String() string {
	switch d {
	case DetectionManyEdges:
		return "many edges"
	case DetectionSingleObserver:
		return "single observer"
	}
	return "unknown"
}

// An evidenceRule turns what observers hold into what stands against members. It
// should be the same at all of them.
type evidenceRule struct {
	detection Detection
	watched   int
}

// An accusation is one record against a member; both are places in Members.
type accusation struct {
	subject, observer int
	evidence          Evidence
}

// accusations are the records by subject, those of Down observers left out:
// whoever is judged dead judges nobody.
func (g *Gossip) accusations() []accusation {
	var list []accusation
	for _, row := range g.Rows {
		o, ok := g.place(row.Observer)
		if !ok || g.Members[o].Status == Down {
			continue
		}
		for _, r := range row.Records {
			if s, ok := g.place(r.Subject); ok {
				list = append(list, accusation{s, o, r.Evidence})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b accusation) int { return a.subject - b.subject })
	return list
}

// bySubject calls f with the accusations of each subject.
func bySubject(list []accusation, f func(subject int, against []accusation)) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].subject == list[0].subject {
			n++
		}
		f(list[0].subject, list[:n])
		list = list[n:]
	}
}

// weighRows tells what stands against each member, and against whom anything is
// held at all.
func (g *Gossip) weighRows(rule evidenceRule, r ring) (evidence []Evidence, accused []int) {
	list := g.accusations()
	bySubject(list, func(subject int, _ []accusation) { accused = append(accused, subject) })
	return g.weigh(list, rule, r, nil), accused
}

// weigh tells what stands against each member when those that are out have no say
// and nothing stands against them.
func (g *Gossip) weigh(list []accusation, rule evidenceRule, r ring, out []bool) []Evidence {
	evidence := make([]Evidence, len(g.Members))
	mute := make([]bool, len(g.Members))
	copy(mute, out)
	// round condemns all at once for whom a reason is found.
	round := func(reason func(subject int, against []accusation, strongest Evidence) bool) bool {
		var found []int
		bySubject(list, func(subject int, against []accusation) {
			strongest := NoEvidence
			for _, a := range against {
				if out == nil || !out[a.observer] {
					strongest = max(strongest, a.evidence)
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
	// Proof is proof whoever has it, and so is everything for a single observer.
	round(func(_ int, _ []accusation, strongest Evidence) bool {
		return strongest == EvidenceGone || rule.detection == DetectionSingleObserver
	})
	for i, r := range g.Members {
		if r.Quarantined && !mute[i] {
			evidence[i], mute[i] = EvidenceSilent, true
		}
	}
	if rule.detection == DetectionSingleObserver {
		return evidence
	}
	// Who is unreachable has no say, as an accuser or as a watcher, and that may
	// change the count for others: a cut shows itself round by round.
	for round(func(subject int, against []accusation, _ Evidence) bool {
		return g.outvoted(rule, r, mute, subject, against)
	}) {
	}
	return evidence
}

// unheardFrom adds to the evidence what one member alone has to conclude: whom
// others hold reachable counts for it only if it hears those others, itself or
// through such as it. So both sides of a cut find out, also a small one, most of
// whose members are watched from the other side; and a member that hears nobody,
// but tells all, harms only itself. It returns nil if there is nothing to add.
func (g *Gossip) unheardFrom(self int, list []accusation, rule evidenceRule, r ring, evidence []Evidence, out []bool) []Evidence {
	if rule.detection != DetectionManyEdges || len(list) == 0 || self < 0 {
		return nil
	}
	accused := make([]bool, len(g.Members))
	for _, a := range list {
		accused[a.subject] = true
	}
	// Who watches a member only since others fell out has not had the time to miss it.
	heard := g.heardFrom(self, list, rule, r, evidence, out, func(i int) bool { return !accused[i] })
	var added []Evidence
	for _, a := range list {
		if heard[a.subject] || !heard[a.observer] || evidence[a.subject] != NoEvidence || out != nil && out[a.subject] {
			continue
		}
		if added == nil {
			added = slices.Clone(evidence)
		}
		added[a.subject] = max(added[a.subject], a.evidence)
	}
	return added
}

// heardFrom tells whom a member hears, itself or through those that it hears: they
// watch it and hold nothing against it. Late tells for whom those count that watch
// it only because others before them are unreachable.
func (g *Gossip) heardFrom(self int, list []accusation, rule evidenceRule, r ring, evidence []Evidence, out []bool, late func(int) bool) []bool {
	against := make(map[int][]accusation)
	bySubject(list, func(subject int, list []accusation) { against[subject] = list })
	accuses := func(observer, subject int) bool {
		return slices.ContainsFunc(against[subject], func(a accusation) bool { return a.observer == observer })
	}
	heard := make([]bool, len(g.Members))
	heard[self] = true
	for queue := []int{self}; len(queue) > 0; queue = queue[1:] {
		watched, passed := 0, 0
		r.after(ringPlace(g.Members[queue[0]].Address), func(i int) bool {
			passed++
			if evidence[i] == NoEvidence && (out == nil || !out[i]) {
				watched++
				if !heard[i] && (passed <= rule.watched || late(i)) && !accuses(queue[0], i) {
					heard[i] = true
					queue = append(queue, i)
				}
			}
			return watched < rule.watched
		})
	}
	return heard
}

// outvoted tells whether more observers accuse the subject than watchers hold
// nothing against it. Its watchers are those that come next before it on the ring.
// Those among them that have no say are not replaced by the next ones: who watches
// it only since then has not had the time to miss it, and its silence would speak
// for every member on the other side of a cut.
func (g *Gossip) outvoted(rule evidenceRule, r ring, mute []bool, subject int, against []accusation) bool {
	accusers := 0
	for _, a := range against {
		if a.observer != subject && !mute[a.observer] {
			accusers++
		}
	}
	if accusers == 0 {
		return false
	}
	watchers, content := 0, 0
	r.before(ringPlace(g.Members[subject].Address), func(i int) bool {
		if i == subject {
			return false // around the whole ring
		}
		watchers++
		if !mute[i] && !slices.ContainsFunc(against, func(a accusation) bool { return a.observer == i }) {
			content++
		}
		return watchers < rule.watched && content < accusers
	})
	return accusers > content
}
