package verdict

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Past is what a Memory adds to a Snapshot.
type Past struct {
	Lost                  []Lost
	Hung                  []Turn
	Overloaded, OverQuota uint64 // refused within growthLasts
}

// A Lost is a member that did not leave in order.
type Lost struct {
	Name    string
	At      []time.Time // of the losses, the oldest first
	Up      time.Time   // when it was up again; zero means that it is not up
	Missing bool        // the member is not back, and no new member has replaced it
}

func (l Lost) times(now time.Time) (n int) {
	for _, at := range l.At {
		if now.Sub(at) < loopWithin {
			n++
		}
	}
	return n
}

func (l Lost) loops(now time.Time) bool {
	return l.times(now) >= loopLosses && (l.Up.IsZero() || now.Sub(l.Up) < loopCalm)
}

const (
	// growthLasts is how long after its last growth a count is a finding.
	growthLasts = 5 * time.Second
	// turnPatience is how long any turn may take. turnFactor is how
	// many times longer than the longest earlier turn of its type it may take. Turns above turnMost
	// do not count as earlier turns.
	turnPatience = 5 * time.Second
	turnFactor   = 4
	turnMost     = time.Minute
	// maxTracked bounds the turns, types and members that are remembered.
	maxTracked = 1000
)

// A Memory remembers what earlier snapshots of a process had. It is not safe for concurrent use.
// The zero value is ready for use.
type Memory struct {
	lost                  map[string]*lost
	up                    map[transport.Address]*upMember // in the last snapshot; nil before the first
	turns                 map[operator.EntityID]Turn
	usual                 map[string]time.Duration // the longest turn that has ended, by type
	overloaded, overQuota growth
	findings              map[string]operator.Finding
}

type lost struct {
	Lost
	replaced bool // by a member of another name; it stays true if that member leaves
}

type upMember struct {
	since    time.Time // zero: it was up before the first snapshot
	replaces bool      // it has taken the place of a lost member
}

// A growth is a count, and the time when it last grew.
type growth struct {
	known       bool
	count, from uint64
	at          time.Time
}

func (g *growth) grown(count uint64, now time.Time) uint64 {
	switch {
	case !g.known:
		g.known, g.count, g.from = true, count, count
	case count != g.count:
		if now.Sub(g.at) >= growthLasts {
			g.from = g.count
		}
		g.count, g.at = count, now
	}
	if now.Sub(g.at) >= growthLasts {
		return 0
	}
	return g.count - g.from
}

// Judge judges a snapshot of a process together with what m remembers, and then remembers the
// snapshot. It returns all findings with the times since when they hold, and those that have begun
// or ended since the last call.
func (m *Memory) Judge(s Snapshot) (all, begun, ended []operator.Finding) {
	if m.lost == nil {
		m.lost, m.findings = map[string]*lost{}, map[string]operator.Finding{}
		m.turns, m.usual = map[operator.EntityID]Turn{}, map[string]time.Duration{}
	}
	m.look(&s)
	for _, name := range SortedKeys(m.lost) {
		l := m.lost[name]
		if s.Now.Sub(l.At[len(l.At)-1]) >= missingFor {
			delete(m.lost, name)
			continue
		}
		l.Missing = l.Up.IsZero() && !l.replaced
		s.Past.Lost = append(s.Past.Lost, l.Lost)
	}
	if s.Self != nil {
		s.Past.Hung = m.hung(s.Self.Turns, s.Now)
		s.Past.Overloaded = m.overloaded.grown(s.Self.Overloaded, s.Now)
		s.Past.OverQuota = m.overQuota.grown(s.Self.OverQuota, s.Now)
	}
	all = Judge(s)
	now := map[string]operator.Finding{}
	for i, f := range all {
		before, had := m.findings[f.Key()]
		switch {
		case !f.Since.IsZero():
		case had:
			all[i].Since = before.Since
		default:
			all[i].Since = s.Now
		}
		if !had {
			begun = append(begun, all[i])
		}
		now[f.Key()] = all[i]
	}
	for _, key := range SortedKeys(m.findings) {
		if _, has := now[key]; !has {
			ended = append(ended, m.findings[key])
		}
	}
	m.findings = now
	return all, begun, ended
}

// look remembers the members that were lost, and which of them are back or replaced.
func (m *Memory) look(s *Snapshot) {
	up, at := map[transport.Address]*upMember{}, map[string]membership.Status{}
	for _, r := range s.View.Members {
		if r.Status == membership.Up {
			up[r.Address] = m.up[r.Address]
			if up[r.Address] == nil {
				up[r.Address] = &upMember{}
				if m.up != nil || r.Address == s.View.Self {
					up[r.Address].since = s.Now
				}
			}
		}
		if r.Status != membership.Down {
			at[r.Name] = max(at[r.Name], r.Status)
		}
	}
	for _, name := range s.Downed {
		l := m.lost[name]
		if l == nil && len(m.lost) >= maxTracked {
			continue
		}
		if l == nil {
			l = &lost{Lost: Lost{Name: name}}
			m.lost[name] = l
		}
		l.replaced, l.Up = false, time.Time{}
		l.At = append(l.At[max(0, len(l.At)-2*loopLosses):], s.Now)
	}
	for _, name := range SortedKeys(m.lost) {
		l := m.lost[name]
		switch {
		case at[name] != membership.Up:
			l.Up = time.Time{}
		case l.Up.IsZero():
			l.Up = s.Now
		}
		for _, r := range s.View.Members { // the first new member takes the place
			u := up[r.Address]
			if back := m.lost[r.Name] != nil; l.Up.IsZero() && !l.replaced && !back && u != nil && !u.replaces && !u.since.Before(l.At[len(l.At)-1]) {
				l.replaced, u.replaces = true, true
			}
		}
	}
	m.up = up
}

// hung returns the turns that have lasted far longer than is usual for their types: at most
// maxHung, the longest first. A turn that an earlier snapshot showed has lasted at least since that
// snapshot.
func (m *Memory) hung(turns []Turn, now time.Time) (all []Turn) {
	next := map[operator.EntityID]Turn{}
	for _, t := range turns[:min(len(turns), maxTracked)] {
		before, had := m.turns[t.EntityID]
		switch {
		case had && before.Number == t.Number && (t.Since.IsZero() || before.Since.Before(t.Since)):
			t.Since = before.Since
		case t.Since.IsZero():
			t.Since = now
		}
		next[t.EntityID] = t
		if now.Sub(t.Since) >= max(turnPatience, turnFactor*m.usual[t.Kind]) {
			all = append(all, t)
		}
	}
	for id, t := range m.turns { //arch:order-free the longest counts
		if n, runs := next[id]; runs && n.Number == t.Number {
			continue
		}
		if took := now.Sub(t.Since); took <= turnMost && (len(m.usual) < maxTracked || m.usual[t.Kind] > 0) {
			m.usual[t.Kind] = max(m.usual[t.Kind], took)
		}
	}
	m.turns = next
	slices.SortStableFunc(all, func(a, b Turn) int { return a.Since.Compare(b.Since) })
	return all[:min(len(all), maxHung)]
}

// maxHung bounds the hung turns that are findings.
const maxHung = 20
