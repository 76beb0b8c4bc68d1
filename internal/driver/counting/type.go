package counting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/util/histogram"
	"github.com/shardgen/shardgen/runtime/measure"
)

// A Quick is a kind of call that is usually counted without a measurement of its duration.
type Quick int

// The kinds of quick calls.
const (
	Ask  Quick = iota // the turn of a local caller, on its goroutine: counts as a call and as a turn
	Tell              // the turn of a local tell
	Sent              // the sending of a tell
	quicks
)

// stripes is the number of parts of a type's words. Each shard counts in one of them.
const stripes = 64

// Every is the average number of quick calls between two timed calls of one method in one stripe.
// Slow calls are timed more often: from 4 µs on a larger share, from alwaysFrom on each call.
// Timing a call costs about 0.25 µs, a thousandth of a call of alwaysFrom.
const (
	Every      = 64
	alwaysFrom = 256 * time.Microsecond
)

// Words are the counts of quick calls in one stripe. Each word has three parts: from bit bucketAt,
// the bucket of the last timed call; from bit dueAt, the number of calls from one timed call to the
// next; below, the number of calls since the last timed call. The second number is random. With a
// fixed number, if two callers alternate, perhaps only one of them would be timed.
type Words []atomic.Uint64

const (
	bucketAt = 48
	dueAt    = 40
)

// Due reports whether the next quick call of this method and kind should be timed.
func (w Words) Due(number int, q Quick) bool {
	v := w[number*int(quicks)+int(q)].Load()
	return v&(1<<dueAt-1) >= v>>dueAt&0xff
}

// Since returns how many calls the next call would represent if it were timed: that call, and the
// untimed calls since the last timed one.
func (w Words) Since(number int, q Quick) uint64 {
	return max(1, w[number*int(quicks)+int(q)].Load()&(1<<dueAt-1))
}

// Add counts a quick call that was not timed.
func (w Words) Add(number int, q Quick) { w[number*int(quicks)+int(q)].Add(1) }

// Usual returns the duration of the last timed call of that method and kind.
func (w Words) Usual(number int, q Quick) time.Duration {
	return histogram.From(int(w[number*int(quicks)+int(q)].Load() >> bucketAt))
}

// A Key says which calls a series counts.
type Key struct {
	Number  int // of the method
	Tell    bool
	Outcome string // only in the counts of callers
	Cause   string // "" means success
}

// Type has the counts of the calls of one type at one process. It is safe for concurrent use.
type Type struct {
	kind string
	Methods
	words  []atomic.Uint64 // of all stripes
	stride int             // words of one stripe, whole cache lines

	mu    sync.Mutex // held while calls move from words to quick, and while both are read
	quick []*sum     // nil: none

	Made, Turns    Side
	Waits, Commits Side // without failures
}

// New returns the counts of a type with these methods.
func New(kind string, methods []string) *Type {
	t := &Type{kind: kind, Methods: NewMethods(methods)}
	n := len(methods) + 1
	const line = 64 / 8
	t.stride = (n*int(quicks) + line - 1) / line * line
	t.words, t.quick = make([]atomic.Uint64, stripes*t.stride), make([]*sum, n*int(quicks))
	for _, s := range []*Side{&t.Made, &t.Turns, &t.Waits, &t.Commits} {
		s.done = make([]Durations, 2*n)
	}
	return t
}

// Words returns the stripe of a shard.
func (t *Type) Words(shard uint32) Words {
	from := int(shard%stripes) * t.stride
	return t.words[from : from+t.stride : from+t.stride]
}

// Timed counts a quick call that was timed. It returns how many calls the timed call represents:
// itself, and the untimed calls since the last timed one.
func (t *Type) Timed(w Words, number int, q Quick, took time.Duration) (n uint64) {
	i := number*int(quicks) + int(q)
	t.mu.Lock()
	defer t.mu.Unlock()
	apart := min(Every, max(1, uint64(alwaysFrom)/max(1, uint64(took))))
	next := 1 + rand.Uint64N(2*apart-1)
	was := w[i].Swap(uint64(histogram.Of(took))<<bucketAt | next<<dueAt | 1)
	if t.quick[i] == nil {
		t.quick[i] = new(sum)
	}
	t.quick[i].word(was)
	return max(1, was&(1<<dueAt-1))
}

// Side counts one kind of event, such as turns, by method and result.
type Side struct {
	done   []Durations // of calls that have succeeded, by method, asks before tells
	failed sync.Map    // from Key to *Durations
}

// Add counts a call. stripe may be any number; calls with different stripes rarely write to the
// same memory.
func (s *Side) Add(stripe uint32, k Key, took time.Duration) {
	if k.Cause == "" {
		i := 2 * k.Number
		if k.Tell {
			i++
		}
		s.done[i].add(stripe, took)
		return
	}
	d, ok := s.failed.Load(k)
	if !ok {
		d, _ = s.failed.LoadOrStore(k, new(Durations))
	}
	d.(*Durations).add(stripe, took)
}

// Durations counts calls by duration. The zero value is empty.
type Durations struct {
	parts [4]atomic.Pointer[histogram.Counts]
}

func (d *Durations) add(stripe uint32, took time.Duration) {
	p := &d.parts[stripe%uint32(len(d.parts))]
	h := p.Load()
	if h == nil {
		p.CompareAndSwap(nil, new(histogram.Counts))
		h = p.Load()
	}
	h[histogram.Of(took)].Add(1)
}

// A sum adds up histograms.
type sum [histogram.Buckets]uint64

func (s *sum) word(w uint64) { s[w>>bucketAt] += w & (1<<dueAt - 1) }

func (s *sum) add(d *Durations) {
	for i := range d.parts {
		if h := d.parts[i].Load(); h != nil {
			for b := range h {
				s[b] += h[b].Load()
			}
		}
	}
}

func (s *sum) buckets() (all []measure.Bucket) {
	for i, n := range s {
		if n > 0 {
			all = append(all, measure.Bucket{From: histogram.From(i), To: histogram.UpTo(i), Count: n})
		}
	}
	return all
}

// Read appends the counts to c.
func (t *Type) Read(c *measure.Calls) {
	direct := t.readQuick()
	read := func(s *Side, success string, also func(number, tell int) *sum) (all []measure.Series) {
		for i := range s.done {
			var h sum
			if also != nil {
				h = *also(i/2, i%2)
			}
			h.add(&s.done[i])
			if b := h.buckets(); b != nil {
				all = append(all, measure.Series{Kind: t.kind, Method: t.Name(i / 2), Tell: i%2 == 1, Outcome: success, Durations: b})
			}
		}
		ended := len(all)
		s.failed.Range(func(key, d any) bool {
			var h sum
			k := key.(Key)
			h.add(d.(*Durations))
			all = append(all, measure.Series{Kind: t.kind, Method: t.Name(k.Number), Tell: k.Tell, Outcome: k.Outcome, Cause: k.Cause, Durations: h.buckets()})
			return true
		})
		slices.SortFunc(all[ended:], func(a, b measure.Series) int {
			return cmp.Or(strings.Compare(a.Method, b.Method), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Outcome, b.Outcome))
		})
		return all
	}
	c.Made = append(c.Made, read(&t.Made, "executed", func(number, tell int) *sum { return &direct[number*int(quicks)+[]int{int(Ask), int(Sent)}[tell]] })...)
	c.Turns = append(c.Turns, read(&t.Turns, "", func(number, tell int) *sum { return &direct[number*int(quicks)+[]int{int(Ask), int(Tell)}[tell]] })...)
	c.Waits = append(c.Waits, read(&t.Waits, "", nil)...)
	c.Commits = append(c.Commits, read(&t.Commits, "", nil)...)
}

// readQuick returns the counts of quick calls, by method and kind.
func (t *Type) readQuick() []sum {
	all := make([]sum, len(t.quick))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range all {
		if t.quick[i] != nil {
			all[i] = *t.quick[i]
		}
		for at := i; at < len(t.words); at += t.stride {
			all[i].word(t.words[at].Load())
		}
	}
	return all
}
