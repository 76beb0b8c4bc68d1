package durable

import (
	"math/rand/v2"
	"testing"
)

// TestFinishedNumbers: exactly those numbers of a source are finished that one of its commands
// named as finished. Commands come out of order, and their lists change.
func TestFinishedNumbers(t *testing.T) {
	const most = 60
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var decoded stuckNumbers
		var joined finished
		var want [most]bool
		var stuck []uint64
		for range 20 {
			if random.IntN(3) == 0 {
				stuck = nil
				for n := uint64(1); n < most; n++ {
					if random.IntN(10) == 0 {
						stuck = append(stuck, n)
					}
				}
			}
			c := Command{Floor: 1 + random.Uint64N(most/2), Past: 1 + random.Uint64N(most-1), Stuck: NumbersOf(stuck)}
			if len(stuck) > MaxStuck {
				t.Fatal("the test makes too many")
			}
			left := map[uint64]bool{}
			for _, n := range stuck {
				left[n] = n >= c.Floor
			}
			for n := range uint64(most) {
				want[n] = want[n] || n < c.Floor || n < c.Past && !left[n]
			}
			before := joined
			var more bool
			joined, more = joined.join(decoded.finished(&c))
			changed := false
			for n := range uint64(most) {
				if got := joined.has(n); got != want[n] {
					t.Fatalf("seed %d, %+v: number %d is finished: %v, want %v", seed, c, n, got, want[n])
				}
				changed = changed || joined.has(n) != before.has(n)
			}
			if changed && !more {
				t.Fatalf("seed %d, %+v: join does not report that more numbers are finished", seed, c)
			}
		}
	}
}
