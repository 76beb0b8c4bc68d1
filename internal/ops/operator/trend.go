package operator

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/util/histogram"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/measure"
)

const (
	// trendMinutes is how many minutes a Trend keeps.
	trendMinutes = 60
	// trendTypes bounds the types in a minute. The busiest are kept.
	trendTypes = 32
)

// A Trend keeps the last hour of a process in one-minute buckets. Its durations have four buckets for
// each doubling. It takes about 100 kB for ten types with ten methods, and is safe for concurrent use.
type Trend struct {
	mu      sync.Mutex
	added   time.Time
	was     map[string]typeCounts // at the last Add
	minutes []Minute              // the oldest first, no two with the same At
}

// A Minute is a minute of a process.
type Minute struct {
	At     time.Time     // its start, a whole minute in UTC
	Lasted time.Duration // how much of the minute was measured
	Used   float64       // processors, on average
	Memory uint64        // bytes that the Go runtime takes of the system, at the end
	Types  []TypeMinute  // with turns, by name; at most 32, the busiest
}

// A TypeMinute has the turns of a type that have ended in a minute.
type TypeMinute struct {
	Kind   string
	Failed uint64
	// Took are all turns by duration, and Commits the waits of answers for the store. Durations read
	// from them are at most a quarter too high.
	Took, Commits []Bucket
}

// Turns returns the number of turns.
func (t *TypeMinute) Turns() (n uint64) {
	for _, b := range t.Took {
		n += b.Turns
	}
	return n
}

// typeCounts are the counts of a type since its process started.
type typeCounts struct {
	failed        uint64
	took, commits [histogram.Buckets]uint64
}

// NewTrend returns an empty Trend that begins now.
func NewTrend(now time.Time) *Trend { return &Trend{added: now, was: map[string]typeCounts{}} }

// Add adds what has happened since the last Add to the minute that contains now. used and memory
// are as in Minute. calls are counts since the start of the process.
func (t *Trend) Add(now time.Time, used float64, memory uint64, calls measure.Calls) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took, at := now.Sub(t.added), now.UTC().Truncate(time.Minute)
	t.added = now
	if took <= 0 {
		return
	}
	t.minutes = slices.DeleteFunc(t.minutes, func(m Minute) bool { // later ones are there if the clock was set back
		return m.At.After(at) || at.Sub(m.At) >= trendMinutes*time.Minute
	})
	if n := len(t.minutes); n == 0 || !t.minutes[n-1].At.Equal(at) {
		t.minutes = append(t.minutes, Minute{At: at})
	}
	m := &t.minutes[len(t.minutes)-1]
	m.Used = (m.Used*m.Lasted.Seconds() + used*took.Seconds()) / (m.Lasted + took).Seconds()
	m.Lasted += took
	m.Memory = memory
	all := map[string]typeCounts{}
	for _, s := range calls.Turns {
		c := all[s.Kind]
		if s.Cause != "" {
			c.failed += s.Count()
		}
		count(&c.took, s.Durations)
		all[s.Kind] = c
	}
	for _, s := range calls.Commits {
		c := all[s.Kind]
		count(&c.commits, s.Durations)
		all[s.Kind] = c
	}
	types := slices.Clone(m.Types) // readers may have the former slice
	for kind, c := range all {     //arch:order-free the types are sorted
		was := t.was[kind]
		types = addMinute(types, TypeMinute{kind, c.failed - was.failed, between(&was.took, &c.took), between(&was.commits, &c.commits)})
	}
	slices.SortFunc(types, func(a, b TypeMinute) int {
		return cmp.Or(cmp.Compare(b.Turns(), a.Turns()), strings.Compare(a.Kind, b.Kind))
	})
	types = types[:min(trendTypes, len(types))]
	slices.SortFunc(types, func(a, b TypeMinute) int { return strings.Compare(a.Kind, b.Kind) })
	m.Types, t.was = types, all
}

// addMinute adds the turns of a type to those of a minute.
func addMinute(all []TypeMinute, add TypeMinute) []TypeMinute {
	if len(add.Took) == 0 && len(add.Commits) == 0 {
		return all
	}
	i := slices.IndexFunc(all, func(t TypeMinute) bool { return t.Kind == add.Kind })
	if i < 0 {
		return append(all, add)
	}
	all[i].Failed += add.Failed
	all[i].Took = addBuckets(append(slices.Clone(all[i].Took), add.Took...))
	all[i].Commits = addBuckets(append(slices.Clone(all[i].Commits), add.Commits...))
	return all
}

func count(sums *[histogram.Buckets]uint64, all []measure.Bucket) {
	for _, b := range all {
		sums[histogram.Of(b.From)|1] += b.Count // merges two buckets into the upper one
	}
}

func between(was, now *[histogram.Buckets]uint64) (all []Bucket) {
	for i, n := range now {
		if n > was[i] {
			all = append(all, Bucket{uint32(i), n - was[i]})
		}
	}
	return all
}

// After returns minutes that begin after the given time, the oldest first, until their encoding
// would take more than about room bytes. If there is any such minute, it returns at least one. last
// is the start of the newest minute in t, or zero if t has no minutes.
func (t *Trend) After(after time.Time, room int) (all []Minute, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.minutes {
		last = m.At
		if !m.At.After(after) {
			continue
		}
		room -= 32
		for _, y := range m.Types {
			room -= len(y.Kind) + 24 + 5*(len(y.Took)+len(y.Commits))
		}
		if room >= 0 || len(all) == 0 {
			all = append(all, m)
		}
	}
	return all, last
}

func bucketsToWire(all []Bucket) (numbers []uint32, counts []uint64) {
	for _, b := range all {
		numbers, counts = append(numbers, b.Number), append(counts, b.Turns)
	}
	return numbers, counts
}

func bucketsFromWire(numbers []uint32, counts []uint64) (all []Bucket) {
	for i := range min(len(numbers), len(counts)) {
		all = append(all, Bucket{Number: numbers[i], Turns: counts[i]})
	}
	return all
}

func minutesToWire(all []Minute) (w []*wire.AdminMinute) {
	for _, m := range all {
		sent := &wire.AdminMinute{At: uint64(m.At.Unix()), Nanos: uint64(m.Lasted), Used: m.Used, Memory: m.Memory}
		for _, t := range m.Types {
			y := &wire.AdminTypeMinute{Kind: t.Kind, Failed: t.Failed}
			y.Buckets, y.Turns = bucketsToWire(t.Took)
			y.CommitBuckets, y.Commits = bucketsToWire(t.Commits)
			sent.Types = append(sent.Types, y)
		}
		w = append(w, sent)
	}
	return w
}

func minutesFromWire(w []*wire.AdminMinute) (all []Minute) {
	for _, m := range w {
		got := Minute{
			At: time.Unix(int64(min(m.GetAt(), math.MaxInt32)), 0).UTC(), Lasted: time.Duration(min(m.GetNanos(), math.MaxInt64)),
			Used: number(m.GetUsed()), Memory: m.GetMemory(),
		}
		for _, t := range m.GetTypes() {
			got.Types = append(got.Types, TypeMinute{t.GetKind(), t.GetFailed(), bucketsFromWire(t.GetBuckets(), t.GetTurns()), bucketsFromWire(t.GetCommitBuckets(), t.GetCommits())})
		}
		all = append(all, got)
	}
	return all
}
