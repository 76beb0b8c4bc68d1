package operator

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	watchLasts = 15 * time.Second
	// maxMethods bounds the methods with own counts. Others are counted as "…".
	maxMethods = 1000
	// maxTypes bounds the types with own histograms. Others are counted as "…".
	maxTypes = 100
	// maxSlots bounds the counted entities, and pairs of a caller and an entity.
	maxSlots = 512
	// maxReported bounds each list of a TurnReport.
	maxReported = 50
)

// An EntityID is the type and the id of an entity.
type EntityID struct{ Kind, ID string }

// A Turn describes the turn of a call to an entity.
type Turn struct {
	EntityID
	Method string
	From   string // its caller, for people
}

// A TurnWatch counts the turns of a process while an operator asks for them. It is safe for
// concurrent use.
type TurnWatch struct {
	began time.Time
	asked atomic.Int64 // the time of the last report: nanoseconds after began

	mu       sync.Mutex
	methods  map[method]*counted
	types    map[string]*histogram
	entities *heavy[EntityID]
	callers  *heavy[pair]
	running  map[any]running
}

type method struct{ kind, name string }

type counted struct {
	MethodTurns
	of *histogram
}

type pair struct {
	from string
	to   EntityID
}

type running struct {
	turn    Turn
	at      time.Time
	earlier bool // it began before the TurnWatch, which may have missed its end
}

func newTurnWatch(now time.Time) *TurnWatch {
	return &TurnWatch{
		began: now, methods: map[method]*counted{}, types: map[string]*histogram{}, entities: newHeavy[EntityID](maxSlots), callers: newHeavy[pair](maxSlots),
		running: map[any]running{},
	}
}

func (w *TurnWatch) over(now time.Time) bool {
	return now.Sub(w.began)-time.Duration(w.asked.Load()) > watchLasts
}

// Begin counts a turn that begins. End with the same key ends it.
func (w *TurnWatch) Begin(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.methodOf(t).Turns++
	w.entities.add(t.EntityID)
	w.callers.add(pair{t.From, t.EntityID})
	w.running[key] = running{turn: t, at: now}
}

// adopt adds a turn that began before the TurnWatch, unless a later one has begun.
func (w *TurnWatch) adopt(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, later := w.running[key]; !later {
		w.running[key] = running{t, now, true}
	}
}

// review drops adopted turns for which has reports false: one may end during its adoption, unseen
// by End.
func (w *TurnWatch) review(has func(key any) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, r := range w.running { //arch:order-free each is judged alone
		if r.earlier && !has(key) {
			delete(w.running, key)
		}
	}
}

func (w *TurnWatch) methodOf(t Turn) *counted {
	at := method{t.Kind, t.Method}
	m := w.methods[at]
	if m == nil && len(w.methods) >= maxMethods {
		at = method{"…", "…"}
		m = w.methods[at]
	}
	if m == nil {
		m = &counted{MethodTurns{Kind: at.kind, Method: at.name}, w.histogramOf(at.kind)}
		w.methods[at] = m
	}
	return m
}

func (w *TurnWatch) histogramOf(kind string) *histogram {
	if w.types[kind] == nil && len(w.types) >= maxTypes {
		kind = "…"
	}
	h := w.types[kind]
	if h == nil {
		h = &histogram{}
		w.types[kind] = h
	}
	return h
}

// End ends the turn with that key. It does nothing if the TurnWatch has no such turn.
func (w *TurnWatch) End(key any, failed bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.running[key]
	if !ok {
		return
	}
	delete(w.running, key)
	if r.earlier {
		return // when it began is not known
	}
	took := max(0, now.Sub(r.at))
	m := w.methodOf(r.turn)
	m.Busy += took
	m.Longest = max(m.Longest, took)
	m.of.add(took)
	if failed {
		m.Failed++
	}
	w.entities.spend(r.turn.EntityID, int64(took))
}

// A MethodTurns has the counts of one method's turns.
type MethodTurns struct {
	Kind, Method  string
	Turns, Failed uint64
	Busy          time.Duration // the total time of turns that have ended
	Longest       time.Duration // the time of the longest turn
}

// A BusyEntity is one of the entities with the most turns.
type BusyEntity struct {
	EntityID
	Turns uint64
	Over  uint64 // Turns is at most that much too high
	Busy  time.Duration
}

// A BusyCaller is a caller with many calls to one entity.
type BusyCaller struct {
	From  string
	To    EntityID
	Calls uint64
	Over  uint64 // Calls is at most that much too high
}

// A TurnReport has what a TurnWatch counted since it began.
type TurnReport struct {
	Lasted   time.Duration
	Methods  []MethodTurns // the most frequent first; at most 50
	Entities []BusyEntity
	Callers  []BusyCaller
	Running  []RunningTurn // turns that have not ended, the oldest first; at most 50
	Types    []TypeLatency // of the turns that have ended, by type
}

// A RunningTurn is a turn that has not ended.
type RunningTurn struct {
	Turn
	For     time.Duration
	Earlier bool // it began before the TurnWatch, so it has run for longer than For
}

// Report returns the counts so far, and keeps the TurnWatch counting for watchLasts more.
func (w *TurnWatch) Report(now time.Time) TurnReport {
	w.asked.Store(int64(now.Sub(w.began)))
	w.mu.Lock()
	defer w.mu.Unlock()
	r := TurnReport{Lasted: now.Sub(w.began)}
	for _, m := range w.methods { //arch:order-free they are sorted
		r.Methods = append(r.Methods, m.MethodTurns)
	}
	slices.SortFunc(r.Methods, func(a, b MethodTurns) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Method, b.Method))
	})
	r.Methods = r.Methods[:min(maxReported, len(r.Methods))]
	for _, kind := range slices.Sorted(maps.Keys(w.types)) {
		r.Types = append(r.Types, TypeLatency{kind, w.types[kind].buckets()})
	}
	for _, s := range w.entities.top(maxReported, EntityID.compare) {
		r.Entities = append(r.Entities, BusyEntity{s.key, s.count, s.over, time.Duration(s.busy)})
	}
	for _, s := range w.callers.top(maxReported, pair.compare) {
		r.Callers = append(r.Callers, BusyCaller{s.key.from, s.key.to, s.count, s.over})
	}
	for _, t := range w.running { //arch:order-free they are sorted
		r.Running = append(r.Running, RunningTurn{t.turn, max(0, now.Sub(t.at)), t.earlier})
	}
	slices.SortFunc(r.Running, func(a, b RunningTurn) int {
		return cmp.Or(cmp.Compare(b.For, a.For), a.EntityID.compare(b.EntityID))
	})
	r.Running = r.Running[:min(maxReported, len(r.Running))]
	return r
}

func (e EntityID) compare(o EntityID) int {
	return cmp.Or(strings.Compare(e.Kind, o.Kind), strings.Compare(e.ID, o.ID))
}

func (p pair) compare(o pair) int {
	return cmp.Or(strings.Compare(p.from, o.from), p.to.compare(o.to))
}

// A TurnSource lists the running turns of a process, including turns that began before a TurnWatch.
type TurnSource interface {
	// UnderWay calls found for each running turn, with the key that [TurnWatch.End] will get.
	UnderWay(found func(key any, t Turn))
	// Has reports whether a turn with that key is running.
	Has(key any) bool
}

// ReportTurns returns the report of the TurnWatch at place. If there is none, or it is over, it
// starts one there.
func ReportTurns(place *atomic.Pointer[TurnWatch], p TurnSource, now time.Time) TurnReport {
	w := place.Load()
	if w == nil || w.over(now) {
		next := newTurnWatch(now)
		if place.CompareAndSwap(w, next) {
			w = next
			p.UnderWay(func(key any, t Turn) { w.adopt(key, t, now) })
		} else if w = place.Load(); w == nil {
			w = next // it counts nothing: another question has just ended
		}
	}
	w.review(p.Has)
	return w.Report(now)
}

// EndWatch removes the TurnWatch at place if its last report was longer than watchLasts ago.
func EndWatch(place *atomic.Pointer[TurnWatch], now time.Time) {
	if w := place.Load(); w != nil && w.over(now) {
		place.CompareAndSwap(w, nil)
	}
}
