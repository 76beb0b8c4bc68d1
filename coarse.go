package shard

import (
	"sync"
	"sync/atomic"
	"time"
)

// A baton is passed among the goroutines that run a series of turns, one after
// another, as long as they are quick. A turn that takes long, or waits for a call
// of its own, hands it over: another goroutine goes on with the rest, and the
// first one only ends its turn.
//
// word arbitrates: it is odd while a turn runs, and whoever raises it by one at
// that moment has the baton: the runner when its turn ends, or a thief.
type baton struct {
	word atomic.Uint64
	wg   *sync.WaitGroup
	next func() // goes on with the series

	seen uint64 // the watchdog's: word at its last look
}

// hold is a turn's hold on the baton of its series.
type hold struct {
	baton *baton
	word  uint64 // odd
}

// enter marks that a turn begins on the goroutine that has the baton.
func (b *baton) enter() hold { return hold{baton: b, word: b.word.Add(1)} }

// leave marks that the turn ended. It reports whether this goroutine still has
// the baton.
func (h hold) leave() bool { return h.baton.word.CompareAndSwap(h.word, h.word+1) }

// handOver lets another goroutine go on with the series, if this turn still has
// the baton.
func (h hold) handOver() {
	if h.baton != nil && h.leave() {
		h.baton.wg.Go(h.baton.next)
	}
}

// watchdog takes the baton from turns that run for over a millisecond, and sets the
// coarse clock. It sleeps while no series has anything to do and nobody reads the clock.
type watchdog struct {
	batons []*baton
	asleep atomic.Bool
	wake   chan struct{}
	base   time.Time // of clock
	clock  coarseClock
}

func (w *watchdog) init(base time.Time) { w.base, w.wake = base, make(chan struct{}, 1) }

// mind has the watchdog look after a series; before run.
func (w *watchdog) mind(b *baton) { w.batons = append(w.batons, b) }

// awake tells the watchdog that a series is busy, or that the clock is read.
func (w *watchdog) awake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// idleLooks is how often the watchdog looks at idle series before it sleeps.
const idleLooks = 20

func (w *watchdog) run(stop <-chan struct{}) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for idle := 0; ; {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		read := w.clock.tick(int64(time.Since(w.base)))
		if w.look() || read {
			idle = 0
			continue
		}
		if idle++; idle < idleLooks {
			continue
		}
		idle = 0
		ticker.Stop()
		w.clock.stop()
		w.asleep.Store(true)
		if (w.look() || w.clock.read.Load()) && w.asleep.CompareAndSwap(true, false) {
			ticker.Reset(time.Millisecond)
			continue // there was something before it could wake this goroutine
		}
		select {
		case <-stop:
			return
		case <-w.wake:
		}
		ticker.Reset(time.Millisecond)
	}
}

// look hands over series whose turn has not changed since the last look, and
// reports whether any did something.
func (w *watchdog) look() (busy bool) {
	for _, b := range w.batons {
		word := b.word.Load()
		if word != b.seen {
			busy = true
		} else if word%2 == 1 {
			busy = true
			hold{baton: b, word: word}.handOver()
		}
		b.seen = word
	}
	return busy
}
