package shard

import (
	"sync"
	"sync/atomic"
	"time"
)

// A runToken is passed among the goroutines that run a series of turns, one after
// another, as long as they are quick. A turn that takes long, or waits for a call
// of its own, hands it over: another goroutine goes on with the rest, and the
// first one only ends its turn.
//
// word arbitrates: it is odd while a turn runs, and whoever raises it by one at
// that moment has the run token: the runner when its turn ends, or a thief.
type runToken struct {
	word atomic.Uint64
	wg   *sync.WaitGroup
	next func() // goes on with the series

	seen uint64 // the watchdog's: word at its last look
}

// hold is a turn's hold on the run token of its series.
type hold struct {
	token *runToken
	word  uint64 // odd
}

// enter marks that a turn begins on the goroutine that has the run token.
func (b *runToken) enter() hold { return hold{token: b, word: b.word.Add(1)} }

// leave marks that the turn ended. It reports whether this goroutine still has
// the run token.
func (h hold) leave() bool { return h.token.word.CompareAndSwap(h.word, h.word+1) }

// handOver lets another goroutine go on with the series, if this turn still has
// the run token.
func (h hold) handOver() {
	if h.token != nil && h.leave() {
		h.token.wg.Go(h.token.next)
	}
}

// watchdog takes the run token from turns that run for long, and sets the coarse clock
// while somebody reads it. It sleeps while there is nothing to do, and seldom looks
// while turns are so quick that none is under way when it does: each look of a
// process that is nearly idle costs as much as some calls.
type watchdog struct {
	tokens []*runToken
	asleep atomic.Bool
	wake   chan struct{}
	base   time.Time // of clock
	clock  coarseClock
}

const (
	// longTurn is how long a turn runs, between two looks, before it loses its run token:
	// up to twice as long after it began, or restingLook longer.
	longTurn = time.Millisecond
	// restingLook is the time to the next look when no turn was under way.
	restingLook = 2 * time.Millisecond
	// idleLooks is how often the watchdog looks at idle series before it sleeps.
	idleLooks = 10
)

func (w *watchdog) init(base time.Time) { w.base, w.wake = base, make(chan struct{}, 1) }

// mind has the watchdog look after a series; before run.
func (w *watchdog) mind(b *runToken) { w.tokens = append(w.tokens, b) }

// awake tells the watchdog that a series is busy, or that the clock is read.
func (w *watchdog) awake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

func (w *watchdog) run(stop <-chan struct{}) {
	timer := time.NewTimer(longTurn)
	defer timer.Stop()
	for idle := 0; ; {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		next, busy := w.look()
		if w.clock.tick(int64(time.Since(w.base))) {
			next, busy = longTurn, true
		}
		if idle++; busy {
			idle = 0
		}
		if idle < idleLooks {
			timer.Reset(next)
			continue
		}
		w.asleep.Store(true)
		next, busy = w.look()
		if (busy || w.clock.read.Load()) && w.asleep.CompareAndSwap(true, false) {
			timer.Reset(next)
			continue // there was something before it could wake this goroutine
		}
		select {
		case <-stop:
			return
		case <-w.wake:
		}
		idle = 0
		timer.Reset(longTurn)
	}
}

// look hands over series whose turn has not changed since the last look, reports
// whether any did something, and returns when to look again.
func (w *watchdog) look() (next time.Duration, busy bool) {
	next = restingLook
	for _, b := range w.tokens {
		word := b.word.Load()
		if word%2 == 1 {
			next, busy = longTurn, true
			if word == b.seen {
				hold{token: b, word: word}.handOver()
			}
		}
		busy = busy || word != b.seen
		b.seen = word
	}
	return next, busy
}
