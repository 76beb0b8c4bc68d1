package runner

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCoarseClock: the clock runs while it is read, and stands still soon after. It never lets a
// lease seem valid for longer than the real clock would.
func TestCoarseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lease
		var w Watchdog
		base := time.Now()
		l.Init(base)
		w.Init(base)
		stop := make(chan struct{})
		go w.Run(stop)
		defer close(stop)
		sleep := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		moment := func() { sleep(longTurn) } // a tick, and what follows from it
		read := func() bool {                // until the clock goes for certain
			for range restingLook/longTurn + 2 {
				w.Valid(&l)
				moment()
			}
			return w.Valid(&l)
		}
		const reading = restingLook + 2*longTurn
		if read() {
			t.Error("a lease that was never renewed is valid")
		}
		l.Renew(base.Add(time.Second))
		for range 100 { // read all the time
			if moment(); !w.Valid(&l) {
				t.Fatalf("no clock at %v, though it is read", time.Since(base))
			}
		}
		at, _ := w.clock.now()
		if age := time.Since(base) - time.Duration(at); age > 2*longTurn {
			t.Errorf("the clock is %v old", age)
		}
		sleep(time.Second - coarseSlack - reading - time.Since(base))
		if read() {
			t.Errorf("valid %v before its end by a clock that may be %v wrong", time.Second-time.Since(base), coarseSlack)
		}
		l.Renew(base.Add(time.Hour))
		if !w.Valid(&l) {
			t.Error("not valid, though it was renewed")
		}
		sleep(2 * idleLooks * restingLook)
		if at := w.clock.at.Load(); at != 0 || !w.asleep.Load() {
			t.Errorf("the clock says %d, and nobody reads it", at)
		}
		if w.Valid(&l) {
			t.Error("valid by a clock that stands still")
		}
		if !read() {
			t.Error("reading it did not set it going")
		}
		l.End(Ending)
		if w.Valid(&l) {
			t.Error("valid, though it ends")
		}
	})
}
