package counting

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/measure"
)

// TestMethods: each method has a number of its own, and Name returns its name for that number.
// Every other name has the number 0.
func TestMethods(t *testing.T) {
	for n := range 40 {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("Method%c%d", 'A'+i%7, i/7))
		}
		m, seen := NewMethods(names), map[int]bool{}
		for _, name := range names {
			number := m.Number(name)
			if number < 1 || number > n || seen[number] || m.Name(number) != name {
				t.Errorf("%d methods: %s has number %d, which is %s", n, name, number, m.Name(number))
			}
			seen[number] = true
		}
		for _, other := range []string{"", "M", "MethodA99", "Other"} {
			if got := m.Number(other); got != 0 {
				t.Errorf("%d methods: %q has number %d", n, other, got)
			}
		}
		if got := m.Name(0); got != OtherMethod {
			t.Errorf("0 is %q", got)
		}
	}
}

// TestQuickCallsAreCountedOnce: while calls are counted and timed by several goroutines, no reading
// has fewer calls than the one before, and at the end each call counts once.
func TestQuickCallsAreCountedOnce(t *testing.T) {
	const workers, calls = 4, 20_000
	counts := New("User", []string{"Add", "Get"})
	read := func() (n uint64) {
		var c measure.Calls
		counts.Read(&c)
		for _, s := range c.Turns {
			n += s.Count()
		}
		return n
	}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			w := counts.Words(uint32(i % 2))
			for n := range calls {
				number, q := 1+n%2, []Quick{Ask, Tell}[n/2%2]
				if w.Due(number, q) {
					counts.Timed(w, number, q, time.Duration(n))
				} else {
					w.Add(number, q)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	for last, running := uint64(0), true; running; {
		select {
		case <-over:
			running = false
		default:
		}
		n := read()
		if n < last {
			t.Fatalf("%d calls after %d", n, last)
		}
		last = n
	}
	if n := read(); n != workers*calls {
		t.Errorf("counted %d of %d calls", n, workers*calls)
	}
}

// TestUntimedCallsTakeAsLongAsTheLastTimed: about 1 of 64 calls is timed. The timed call stands for
// the calls before it, and the calls after it count with its duration.
func TestUntimedCallsTakeAsLongAsTheLastTimed(t *testing.T) {
	counts := New("User", []string{"Add"})
	const calls, usual = 1000 * Every, 400 * time.Nanosecond
	w, timed, stood := counts.Words(7), 0, uint64(0)
	for range calls {
		if w.Due(1, Ask) {
			timed++
			stood += counts.Timed(w, 1, Ask, usual)
		} else {
			w.Add(1, Ask)
		}
	}
	var c measure.Calls
	counts.Read(&c)
	if timed < 800 || timed > 1250 || stood < calls-2*Every || stood > calls+1 || len(c.Made) != 1 || len(c.Turns) != 1 || len(c.Turns[0].Durations) != 1 {
		t.Fatalf("%d timed, for %d: %+v", timed, stood, c)
	}
	if b := c.Turns[0].Durations[0]; b.From > usual || b.To <= usual || b.Count != calls {
		t.Errorf("counted %+v", b)
	}
	if s := &c.Turns[0]; s.Count() != calls || s.Sum() < calls*94*usual/100 || s.Sum() > calls*106*usual/100 {
		t.Errorf("%d calls took %v", s.Count(), s.Sum())
	}
	if d := w.Usual(1, Ask); d > usual || d < usual*7/8 {
		t.Errorf("usually %v", d)
	}
}

// TestLongCallsAreTimedOften: the longer a call takes, the sooner the next call is timed, and from
// 256 µs on each call is timed. The timed calls stand for all calls, so the sum is right, even if
// short and long calls alternate by chance.
func TestLongCallsAreTimedOften(t *testing.T) {
	for _, c := range []struct {
		took  func() time.Duration
		share float64 // of timed calls
	}{
		{func() time.Duration { return 300 * time.Microsecond }, 1},
		{func() time.Duration { return 32 * time.Microsecond }, 1.0 / 8},
		{func() time.Duration { return 3 * time.Microsecond }, 1.0 / Every},
		{func() time.Duration { return []time.Duration{100 * time.Nanosecond, time.Millisecond}[rand.IntN(2)] }, 0},
	} {
		counts := New("User", []string{"Add"})
		const calls = 1 << 17
		w, timed, sum, stood := counts.Words(7), 0, time.Duration(0), time.Duration(0)
		for range calls {
			took := c.took()
			sum += took
			if w.Due(1, Ask) {
				timed++
				stood += time.Duration(counts.Timed(w, 1, Ask, took)) * took
			} else {
				w.Add(1, Ask)
			}
		}
		if got := float64(timed) / calls; c.share > 0 && (got < 0.9*c.share || got > 1.1*c.share) {
			t.Errorf("%v: %.3f of the calls are timed, want %.3f", sum/calls, got, c.share)
		}
		if off := float64(stood) / float64(sum); off < 0.93 || off > 1.07 {
			t.Errorf("%v: the timed calls stand for %.2f of the time", sum/calls, off)
		}
	}
}
