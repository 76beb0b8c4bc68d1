// Package runtoken keeps one slow turn from holding up the turns behind it. Turns of a series run
// one after another on the goroutine that has the series's Token. A Watchdog takes the Token from a
// long turn and gives it to another goroutine, and a SlowTurnDetector finds series with turns that
// should run on goroutines of their own. The Watchdog also has a clock for short turns, cheaper
// than the real one.
package runtoken

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/turnlease"
	"github.com/shardgen/shardgen/internal/util/tasks"
)

// A Token is passed among the goroutines that run a series of turns, one after
// another, as long as they are quick. A turn that takes long, or waits for a call
// of its own, hands it over: another goroutine goes on with the rest, and the
// first one only ends its turn.
//
// word arbitrates: it is odd while a turn runs, and the goroutine that then raises it by one has
// the run token: the turn's goroutine at its end, or one taking the token away.
type Token struct {
	word  atomic.Uint64
	group *tasks.Group
	next  func()    // goes on with the series
	watch *Watchdog // that minds it; nil means none

	seen uint64 // the watchdog's: word at its last look
}

// A Hold is a turn's hold on the run token of its series.
type Hold struct {
	token *Token
	word  uint64 // odd
}

// Init sets the function that goroutines run to continue the series, and how they are started. It is
// called once, before anything else.
func (t *Token) Init(group *tasks.Group, next func()) { t.group, t.next = group, next }

// Enter marks the beginning of a turn on the goroutine with the run token. Without a Token, the
// turn has no hold. It wakes the watchdog after it has changed word: a watchdog that is about to
// sleep looks at word after it has said so, and thus sees the turn or is woken.
func (t *Token) Enter() Hold {
	if t == nil {
		return Hold{}
	}
	h := Hold{token: t, word: t.word.Add(1)}
	if t.watch != nil {
		t.watch.Awake()
	}
	return h
}

// Leave marks that the turn has ended. It reports whether this goroutine still has
// the run token.
func (h Hold) Leave() bool {
	return h.token != nil && h.token.word.CompareAndSwap(h.word, h.word+1)
}

// HandOver lets another goroutine go on with the series, if this turn still has
// the run token.
func (h Hold) HandOver() {
	if h.Leave() {
		h.token.group.Go(h.token.next)
	}
}

// A Watchdog takes the run token from turns that run for long, and sets the coarse clock while
// somebody reads it. It sleeps while there is nothing to do, and checks rarely while turns are too
// short to be seen: each check of a nearly idle process costs as much as some calls.
type Watchdog struct {
	mu     sync.Mutex               // serializes changes of tokens
	tokens atomic.Pointer[[]*Token] // copied on write
	asleep atomic.Bool
	wake   chan struct{}
	base   time.Time // of clock
	clock  clock
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

// Init sets the base of the clock. It is called once, before anything else.
func (w *Watchdog) Init(base time.Time) {
	w.base, w.wake = base, make(chan struct{}, 1)
	w.tokens.Store(&[]*Token{})
}

// Mind has the watchdog look after a series. It is called before the first turn of the series, and may
// be called while the watchdog runs.
func (w *Watchdog) Mind(t *Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.watch = w
	more := append(slices.Clone(*w.tokens.Load()), t)
	w.tokens.Store(&more)
}

// Unmind ends Mind for a series that has ended. A look that is under way may still read the
// token, and leaves it alone, because no turn of it runs.
func (w *Watchdog) Unmind(t *Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fewer := slices.DeleteFunc(slices.Clone(*w.tokens.Load()), func(o *Token) bool { return o == t })
	w.tokens.Store(&fewer)
}

// Awake wakes the watchdog for a begun turn or a reading of the clock.
func (w *Watchdog) Awake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// Run looks until stop is closed.
func (w *Watchdog) Run(stop <-chan struct{}) {
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
func (w *Watchdog) look() (next time.Duration, busy bool) {
	next = restingLook
	for _, b := range *w.tokens.Load() {
		word := b.word.Load()
		if word%2 == 1 {
			next, busy = longTurn, true
			if word == b.seen {
				Hold{token: b, word: word}.HandOver()
			}
		}
		busy = busy || word != b.seen
		b.seen = word
	}
	return next, busy
}

// Valid reports whether a turn may begin for certain by the lease, without reading the real
// clock. It has the clock go on if that stands still.
func (w *Watchdog) Valid(l *turnlease.Lease) bool {
	if !l.Bounded() {
		return l.Phase() == turnlease.Renewed
	}
	at, ok := w.clock.now()
	if !ok {
		w.Awake()
		return false
	}
	return l.ValidAt(at + int64(coarseSlack))
}
