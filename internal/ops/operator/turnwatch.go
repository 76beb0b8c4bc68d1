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

// Bounds of a TurnWatch.
const (
	// watchLasts is how long a TurnWatch goes on after it was last asked.
	watchLasts = 15 * time.Second
	// maxMethods is how many methods are told apart; the turns of further ones are counted as "…".
	maxMethods = 1000
	// maxTypes is how many types have a histogram; the turns of further ones are counted as "…".
	maxTypes = 100
	// maxSlots is how many entities, and how many pairs of a caller and an entity, are counted at a
	// time.
	maxSlots = 512
	// maxReported is how many of them a TurnReport has.
	maxReported = 50
)

// An EntityID is the type and the id of an entity.
type EntityID struct{ Kind, ID string }

// A Turn is a turn that begins.
type Turn struct {
	EntityID
	Method string
	From   string // its caller, for people
}

// A TurnWatch counts turns. It is safe for concurrent use.
type TurnWatch struct {
	began time.Time
	asked atomic.Int64 // when it was asked last: nanoseconds after began

	mu       sync.Mutex
	methods  map[method]*counted
	types    map[string]*histogram
	entities *heavy[EntityID]
	callers  *heavy[pair]
	running  map[any]running
}

type method struct{ kind, name string }

// counted has the counts of a method, and the histogram of its type.
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
	earlier bool // it began before the TurnWatch, which does not know its end for certain
}

// newTurnWatch returns a TurnWatch that begins now.
func newTurnWatch(now time.Time) *TurnWatch {
	return &TurnWatch{
		began: now, methods: map[method]*counted{}, types: map[string]*histogram{}, entities: newHeavy[EntityID](maxSlots), callers: newHeavy[pair](maxSlots),
		running: map[any]running{},
	}
}

// over reports whether nobody has asked for a while.
func (w *TurnWatch) over(now time.Time) bool {
	return now.Sub(w.began)-time.Duration(w.asked.Load()) > watchLasts
}

// Begin counts a turn, which ends at End with the same key.
func (w *TurnWatch) Begin(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.methodOf(t).Turns++
	w.entities.add(t.EntityID)
	w.callers.add(pair{t.From, t.EntityID})
	w.running[key] = running{turn: t, at: now}
}

// adopt takes a turn that began earlier, unless a later one with the key has begun.
func (w *TurnWatch) adopt(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, later := w.running[key]; !later {
		w.running[key] = running{t, now, true}
	}
}

// review drops the turns that were adopted and have ended: they may have ended while they were adopted.
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

// End ends a turn that has begun. It does nothing for others.
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

// A MethodTurns has the counts of a method.
type MethodTurns struct {
	Kind, Method  string
	Turns, Failed uint64
	Busy          time.Duration // the time of all turns that have ended
	Longest       time.Duration // turn
}

// A BusyEntity is an entity with many turns.
type BusyEntity struct {
	EntityID
	Turns uint64
	Over  uint64 // Turns is at most that much too high
	Busy  time.Duration
}

// A BusyCaller is a caller with many calls to an entity.
type BusyCaller struct {
	From  string
	To    EntityID
	Calls uint64
	Over  uint64 // Calls is at most that much too high
}

// A TurnReport has the counts since the TurnWatch began.
type TurnReport struct {
	Lasted   time.Duration
	Methods  []MethodTurns // the most frequent first; at most 50
	Entities []BusyEntity
	Callers  []BusyCaller
	Running  []RunningTurn // turns that have not ended, the oldest first; at most 50
	Types    []TypeLatency // of the turns that have ended, by type
}

// A RunningTurn has not ended.
type RunningTurn struct {
	Turn
	For     time.Duration
	Earlier bool // it began before anybody looked, so it runs for longer than For
}

// Report returns the counts so far, and keeps the TurnWatch going.
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

// A TurnSource has turns, which may have begun before anybody looked.
type TurnSource interface {
	// UnderWay calls found for each turn under way, with the key that it has at [TurnWatch.End].
	UnderWay(found func(key any, t Turn))
	// Has reports whether a turn with that key is under way.
	Has(key any) bool
}

// ReportTurns returns the report of the TurnWatch at a place, and puts one there if there is none.
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

// EndWatch takes the TurnWatch away for which nobody asks any more.
func EndWatch(place *atomic.Pointer[TurnWatch], now time.Time) {
	if w := place.Load(); w != nil && w.over(now) {
		place.CompareAndSwap(w, nil)
	}
}
