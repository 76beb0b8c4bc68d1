package operator

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/util/histogram"
	"github.com/shardgen/shardgen/runtime/measure"
)

const (
	// maxSlots bounds the counted entities, and the counted pairs of a caller and an entity.
	maxSlots = 512
	// maxMethods bounds the methods of a TurnReport, and maxReported its other lists.
	maxMethods, maxReported = 200, 50
	// logWindow is the time after which a TurnLog starts a new count. It reports this count and the
	// one before.
	logWindow = 5 * time.Second
	// logApart is the least time between two turns that a TurnLog notes, so noting them costs at
	// most about a thousandth of a processor.
	logApart = time.Millisecond
)

// An EntityID is the type and the id of an entity.
type EntityID struct{ Kind, ID string }

// A Turn describes the turn of a call to an entity.
type Turn struct {
	EntityID
	Method string
	From   string // its caller, for people
}

// A TurnLog counts which entities, and which pairs of a caller and an entity, had most of a
// process's turns in the last five to ten seconds. It notes at most one turn in each millisecond. A
// noted turn also counts for the turns that ended since the previously noted turn. A TurnLog is
// safe for concurrent use.
type TurnLog struct {
	skipped atomic.Uint64 // turns since the noted one
	noted   atomic.Int64  // time of the noted turn, in nanoseconds after any base

	mu        sync.Mutex
	now, last window
}

type window struct {
	began    time.Time
	entities *heavy[EntityID]
	callers  *heavy[pair]
}

type pair struct {
	from string
	to   EntityID
}

func newWindow(now time.Time) window {
	return window{now, newHeavy[EntityID](maxSlots), newHeavy[pair](maxSlots)}
}

// NewTurnLog returns an empty TurnLog that begins now.
func NewTurnLog(now time.Time) *TurnLog { return &TurnLog{now: newWindow(now), last: newWindow(now)} }

// Due counts n turns and decides whether the last of them, which ended at now, is noted. now is in
// nanoseconds after a base that is the same in all calls. If Due returns 0, the last turn is not
// noted. Otherwise the caller must pass the last turn to Note, with the result of Due: the number
// of turns for which the noted turn counts.
func (l *TurnLog) Due(n uint64, now int64) uint64 {
	l.skipped.Add(n)
	if was := l.noted.Load(); now-was < int64(logApart) || !l.noted.CompareAndSwap(was, now) {
		return 0
	}
	return l.skipped.Swap(0)
}

// Note notes a turn that stands for n turns, the result of Due. Each of them counts with the
// duration took.
func (l *TurnLog) Note(t Turn, n uint64, took time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnOver(now)
	l.now.entities.add(t.EntityID, n, took*time.Duration(n))
	l.now.callers.add(pair{t.From, t.EntityID}, n, 0)
}

func (l *TurnLog) turnOver(now time.Time) {
	switch age := now.Sub(l.now.began); {
	case age >= 2*logWindow:
		l.now, l.last = newWindow(now), newWindow(now)
	case age >= logWindow:
		l.now, l.last = newWindow(now), l.now
	}
}

// A MethodTurns has the counts of one method's turns.
type MethodTurns struct {
	Kind, Method string
	Failed       uint64
	Took         []Bucket // all turns that have ended, by duration, the shortest first
}

// Turns returns the number of turns that have ended.
func (m *MethodTurns) Turns() (n uint64) {
	for _, b := range m.Took {
		n += b.Turns
	}
	return n
}

// A BusyEntity is one of the entities with the most turns, by a sample.
type BusyEntity struct {
	EntityID
	Turns uint64
	Over  uint64 // Turns may count that many turns of other entities
	Busy  time.Duration
}

// A BusyCaller is a caller with many calls to one entity, by a sample.
type BusyCaller struct {
	From  string
	To    EntityID
	Calls uint64
	Over  uint64 // Calls may count that many calls of other callers
}

// A TurnReport has the turns of a process since the process began.
type TurnReport struct {
	Lasted   time.Duration
	Methods  []MethodTurns // the most frequent first; at most 200
	Window   time.Duration // the recent time in which Entities and Callers were counted
	Entities []BusyEntity  // the busiest first; at most 50, as Callers
	Callers  []BusyCaller
	Running  []RunningTurn // turns that have not ended, the oldest first; at most 50
}

// A RunningTurn is a turn that has not ended.
type RunningTurn struct {
	Turn
	For time.Duration // at most 0.1 s too much or too little
}

// Report returns a report with the counts of series and the running turns.
func (l *TurnLog) Report(now time.Time, series []measure.Series, running []RunningTurn) (r TurnReport) {
	r.Methods = methodsOf(series)
	r.Running = slices.Clone(running)
	slices.SortFunc(r.Running, func(a, b RunningTurn) int { return cmp.Or(cmp.Compare(b.For, a.For), a.EntityID.compare(b.EntityID)) })
	r.Running = r.Running[:min(maxReported, len(r.Running))]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnOver(now)
	r.Window = now.Sub(l.last.began)
	for _, s := range top(maxReported, EntityID.compare, l.last.entities, l.now.entities) {
		r.Entities = append(r.Entities, BusyEntity{s.key, s.count, s.over, s.busy})
	}
	for _, s := range top(maxReported, pair.compare, l.last.callers, l.now.callers) {
		r.Callers = append(r.Callers, BusyCaller{s.key.from, s.key.to, s.count, s.over})
	}
	return r
}

// methodsOf adds up series that have the same method.
func methodsOf(series []measure.Series) (all []MethodTurns) {
	at := map[[2]string]int{}
	for _, s := range series {
		key := [2]string{s.Kind, s.Method}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key], all = i, append(all, MethodTurns{Kind: s.Kind, Method: s.Method})
		}
		if s.Cause != "" {
			all[i].Failed += s.Count()
		}
		for _, b := range s.Durations {
			all[i].Took = append(all[i].Took, Bucket{uint32(histogram.Of(b.From)), b.Count})
		}
	}
	for i := range all {
		all[i].Took = addBuckets(all[i].Took)
	}
	slices.SortFunc(all, func(a, b MethodTurns) int {
		return cmp.Or(cmp.Compare(b.Turns(), a.Turns()), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Method, b.Method))
	})
	return all[:min(maxMethods, len(all))]
}

func (e EntityID) compare(o EntityID) int {
	return cmp.Or(strings.Compare(e.Kind, o.Kind), strings.Compare(e.ID, o.ID))
}

func (p pair) compare(o pair) int {
	return cmp.Or(strings.Compare(p.from, o.from), p.to.compare(o.to))
}
