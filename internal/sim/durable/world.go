package durable

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
	"unsafe"
)

type world struct {
	now    time.Duration
	events events
	seq    uint64
	random *rand.Rand
	hash   uint64
	say    func(string)
	err    error
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func (w *world) after(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(d, 0), w.seq, f})
}

func (w *world) run(d time.Duration, done func() bool) bool {
	end := w.now + d
	for w.err == nil && len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		if done != nil && done() {
			return true
		}
	}
	if w.err == nil {
		w.now = end
	}
	return done != nil && done()
}

func (w *world) clock() time.Time { return time.Unix(1_700_000_000, 0).Add(w.now) }

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: "+format, append([]any{w.now}, args...)...)
		w.trace("%v", w.err)
	}
}

func (w *world) trace(format string, args ...any) {
	line := fmt.Sprintf("%10v "+format, append([]any{w.now.Round(10 * time.Microsecond)}, args...)...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%x %s", w.hash, line)
	w.hash = h.Sum64()
	if w.say != nil {
		w.say(line)
	}
}

func (w *world) chance(p float64) bool { return w.random.Float64() < p }

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.random.Float64()*float64(to-from))
}

// clock is the clock of one process. As in package time, differences of two readings are right,
// while the wall time may be wrong and jump, backwards too.
type clock struct {
	w    *world
	skew time.Duration // of the wall time
}

func (c *clock) now() time.Time {
	return monotonic(c.w.now, c.w.clock().Add(c.skew))
}

// rawTime has the memory layout of a time.Time with a monotonic reading. It is needed because
// package time sets such readings only from its own clock.
type rawTime struct {
	wall uint64 // 1, seconds in 33 bits, nanoseconds in 30 bits
	ext  int64  // the monotonic reading, in nanoseconds
	loc  *time.Location
}

const (
	rawMonotonic = 1 << 63
	rawSeconds   = 30 // the lowest bit of the seconds
)

// rawEpoch is Unix time 0, in the seconds that a rawTime counts.
var rawEpoch = func() int64 {
	now := time.Now()
	raw := *(*rawTime)(unsafe.Pointer(&now))
	return int64(raw.wall<<1>>(rawSeconds+1)) - now.Unix()
}()

// monotonic returns a time whose monotonic reading and wall time are independent.
func monotonic(reading time.Duration, wall time.Time) time.Time {
	raw := rawTime{
		wall: rawMonotonic | uint64(wall.Unix()+rawEpoch)<<rawSeconds | uint64(wall.Nanosecond()),
		ext:  int64(reading) + 1, loc: time.Local,
	}
	return *(*time.Time)(unsafe.Pointer(&raw))
}
