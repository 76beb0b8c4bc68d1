package counting

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/measure"
)

// TestMethods: each method has a number of its own, which has its name, and every other name has 0.
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

// TestUntimedCallsTakeAsLongAsTheLastTimed: about 1 of 64 calls is timed, stands for those before it, and
// gives its duration to those behind it.
func TestUntimedCallsTakeAsLongAsTheLastTimed(t *testing.T) {
	counts := New("User", []string{"Add"})
	const calls = 1000 * every
	w, timed, stood := counts.Words(7), 0, uint64(0)
	for range calls {
		if w.Due(1, Ask) {
			timed++
			stood += counts.Timed(w, 1, Ask, time.Millisecond)
		} else {
			w.Add(1, Ask)
		}
	}
	var c measure.Calls
	counts.Read(&c)
	if timed < 800 || timed > 1250 || stood < calls-2*every || stood > calls+1 || len(c.Made) != 1 || len(c.Turns) != 1 || len(c.Turns[0].Durations) != 1 {
		t.Fatalf("%d timed, for %d: %+v", timed, stood, c)
	}
	if b := c.Turns[0].Durations[0]; b.From > time.Millisecond || b.To <= time.Millisecond || b.Count != calls {
		t.Errorf("counted %+v", b)
	}
	if s := &c.Turns[0]; s.Count() != calls || s.Sum() < calls*94*time.Millisecond/100 || s.Sum() > calls*106*time.Millisecond/100 {
		t.Errorf("%d calls took %v", s.Count(), s.Sum())
	}
	if d := w.Usual(1, Ask); d > time.Millisecond || d < 875*time.Microsecond {
		t.Errorf("usually %v", d)
	}
}
