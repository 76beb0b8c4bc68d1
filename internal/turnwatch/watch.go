package turnwatch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Watch.
const (
	// Lasts is how long a Watch goes on after it was last asked.
	Lasts = 15 * time.Second
	// Methods is how many methods are told apart; the turns of further ones are counted as "…".
	Methods = 1000
	// Types is how many types have a histogram; the turns of further ones are counted as "…".
	Types = 100
	// Slots is how many entities, and how many pairs of a caller and an entity, are counted at a
	// time.
	Slots = 512
	// Reported is how many of them a Report has.
	Reported = 50
)

// An Entity is the type and the id of an entity.
type Entity struct{ Kind, ID string }

// A Turn is a turn that begins.
type Turn struct {
	Entity
	Method string
	From   string // its caller, for people
}

// A Watch counts turns. It is safe for concurrent use.
type Watch struct {
	began time.Time
	asked atomic.Int64 // when it was asked last: nanoseconds after began

	mu       sync.Mutex
	methods  map[method]*counted
	types    map[string]*histogram
	entities *heavy[Entity]
	callers  *heavy[pair]
	running  map[any]running
}

type method struct{ kind, name string }

// counted has the counts of a method, and the histogram of its type.
type counted struct {
	Method
	of *histogram
}

type pair struct {
	from string
	to   Entity
}

type running struct {
	turn    Turn
	at      time.Time
	earlier bool // it began before the Watch, which does not know its end for certain
}

// New returns a Watch that begins now.
func New(now time.Time) *Watch {
	return &Watch{
		began: now, methods: map[method]*counted{}, types: map[string]*histogram{}, entities: newHeavy[Entity](Slots), callers: newHeavy[pair](Slots),
		running: map[any]running{},
	}
}

// over reports whether nobody has asked for a while.
func (w *Watch) over(now time.Time) bool {
	return now.Sub(w.began)-time.Duration(w.asked.Load()) > Lasts
}

// Begin counts a turn, which ends at End with the same key.
func (w *Watch) Begin(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.methodOf(t).Turns++
	w.entities.add(t.Entity)
	w.callers.add(pair{t.From, t.Entity})
	w.running[key] = running{turn: t, at: now}
}

// adopt takes a turn that began earlier, unless a later one with the key has begun.
func (w *Watch) adopt(key any, t Turn, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, later := w.running[key]; !later {
		w.running[key] = running{t, now, true}
	}
}

// review drops the turns that were adopted and have ended: they may have ended while they were adopted.
func (w *Watch) review(has func(key any) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, r := range w.running { //arch:order-free each is judged alone
		if r.earlier && !has(key) {
			delete(w.running, key)
		}
	}
}

func (w *Watch) methodOf(t Turn) *counted {
	at := method{t.Kind, t.Method}
	m := w.methods[at]
	if m == nil && len(w.methods) >= Methods {
		at = method{"…", "…"}
		m = w.methods[at]
	}
	if m == nil {
		m = &counted{Method{Kind: at.kind, Method: at.name}, w.histogramOf(at.kind)}
		w.methods[at] = m
	}
	return m
}

func (w *Watch) histogramOf(kind string) *histogram {
	if w.types[kind] == nil && len(w.types) >= Types {
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
func (w *Watch) End(key any, failed bool, now time.Time) {
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
	w.entities.spend(r.turn.Entity, int64(took))
}

// A Method has the counts of a method.
type Method struct {
	Kind, Method  string
	Turns, Failed uint64
	Busy          time.Duration // the time of all turns that have ended
	Longest       time.Duration // turn
}

// A Busy is an entity with many turns.
type Busy struct {
	Entity
	Turns uint64
	Over  uint64 // Turns is at most that much too high
	Busy  time.Duration
}

// A Caller is a caller with many calls to an entity.
type Caller struct {
	From  string
	To    Entity
	Calls uint64
	Over  uint64 // Calls is at most that much too high
}

// A Report has the counts since the Watch began.
type Report struct {
	Lasted   time.Duration
	Methods  []Method // the most frequent first; at most Reported
	Entities []Busy
	Callers  []Caller
	Running  []Running // turns that have not ended, the oldest first; at most Reported
	Types    []Latency // of the turns that have ended, by type
}

// A Running turn has not ended.
type Running struct {
	Turn
	For     time.Duration
	Earlier bool // it began before anybody looked, so it runs for longer than For
}

// Report returns the counts so far, and keeps the Watch going.
func (w *Watch) Report(now time.Time) Report {
	w.asked.Store(int64(now.Sub(w.began)))
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Report{Lasted: now.Sub(w.began)}
	for _, m := range w.methods { //arch:order-free they are sorted
		r.Methods = append(r.Methods, m.Method)
	}
	slices.SortFunc(r.Methods, func(a, b Method) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Method, b.Method))
	})
	r.Methods = r.Methods[:min(Reported, len(r.Methods))]
	for _, kind := range slices.Sorted(maps.Keys(w.types)) {
		r.Types = append(r.Types, Latency{kind, w.types[kind].buckets()})
	}
	for _, s := range w.entities.top(Reported, Entity.compare) {
		r.Entities = append(r.Entities, Busy{s.key, s.count, s.over, time.Duration(s.busy)})
	}
	for _, s := range w.callers.top(Reported, pair.compare) {
		r.Callers = append(r.Callers, Caller{s.key.from, s.key.to, s.count, s.over})
	}
	for _, t := range w.running { //arch:order-free they are sorted
		r.Running = append(r.Running, Running{t.turn, max(0, now.Sub(t.at)), t.earlier})
	}
	slices.SortFunc(r.Running, func(a, b Running) int {
		return cmp.Or(cmp.Compare(b.For, a.For), a.Entity.compare(b.Entity))
	})
	r.Running = r.Running[:min(Reported, len(r.Running))]
	return r
}

func (e Entity) compare(o Entity) int {
	return cmp.Or(strings.Compare(e.Kind, o.Kind), strings.Compare(e.ID, o.ID))
}

func (p pair) compare(o pair) int {
	return cmp.Or(strings.Compare(p.from, o.from), p.to.compare(o.to))
}
