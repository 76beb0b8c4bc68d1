package runner

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/util/tasks"
)

// A Token is the run token of a series of quick turns. The goroutine that has it runs the turns one
// after another. If a turn takes long, or waits for a call of its own, another goroutine gets the
// run token and continues the series. The first goroutine then only ends its turn.
//
// The field word decides who has the run token. It is odd while a turn runs. Leave and HandOver
// each try to add one to it. If Leave is first, at the turn's end, the turn's goroutine keeps the
// run token. If HandOver is first, another goroutine gets it.
type Token struct {
	word  atomic.Uint64
	group *tasks.Group
	next  func()    // continues the series on another goroutine
	watch *Watchdog // the watchdog of the series; nil means none

	seen uint64 // word when the watchdog last looked; only the watchdog uses it
}

// A Hold is a turn's hold on the run token of its series.
type Hold struct {
	token *Token
	word  uint64 // Token.word during the turn, which is odd
}

// Init sets the group of goroutines, and next, the function that continues the series on a new
// goroutine of the group. It is called once, before any other method.
func (t *Token) Init(group *tasks.Group, next func()) { t.group, t.next = group, next }

// Enter begins a turn on the goroutine that has the run token. If t is nil, the turn gets no hold.
// Enter first changes word and then wakes the watchdog. A watchdog that is about to sleep announces
// this and then reads word, so the watchdog either sees the turn or is woken.
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

// Leave ends the turn. It reports whether this goroutine still has the run token.
func (h Hold) Leave() bool {
	return h.token != nil && h.token.word.CompareAndSwap(h.word, h.word+1)
}

// HandOver lets another goroutine continue the series, if this turn still has the run token.
func (h Hold) HandOver() {
	if h.Leave() {
		h.token.group.Go(h.token.next)
	}
}

// A Watchdog takes the run token from turns that take long, and sets the coarse clock while
// somebody reads that clock. It looks at the turns again and again. It looks half as often if it
// sees no running turn, and sleeps while no turns run, because each look of a nearly idle process
// costs as much as several calls.
type Watchdog struct {
	mu     sync.Mutex               // serializes changes of tokens
	tokens atomic.Pointer[[]*Token] // copied on write
	asleep atomic.Bool
	wake   chan struct{}
	base   time.Time // the base of clock
	clock  clock
}

const (
	// longTurn is the interval of looks at running turns. A turn seen at two looks loses its run
	// token.
	longTurn    = time.Millisecond
	restingLook = 2 * time.Millisecond
	// idleLooks is how many looks at idle series precede the watchdog's sleep.
	idleLooks = 10
)

// Init sets the base of the clock. It is called once, before any other method.
func (w *Watchdog) Init(base time.Time) {
	w.base, w.wake = base, make(chan struct{}, 1)
	w.tokens.Store(&[]*Token{})
}

// Mind makes the watchdog watch a series of turns. It is called before the first turn of the
// series; the watchdog may already be running.
func (w *Watchdog) Mind(t *Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.watch = w
	more := append(slices.Clone(*w.tokens.Load()), t)
	w.tokens.Store(&more)
}

// Unmind ends the watching of a series of turns that has ended. A running look may still read the
// series' token, but does not take it, because no turn of the series runs.
func (w *Watchdog) Unmind(t *Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fewer := slices.DeleteFunc(slices.Clone(*w.tokens.Load()), func(o *Token) bool { return o == t })
	w.tokens.Store(&fewer)
}

// Awake wakes the watchdog, because a turn has begun or the clock is read.
func (w *Watchdog) Awake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// Run looks at all series of turns, again and again, until stop is closed.
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

// Valid reports whether the lease certainly lets a turn begin, without reading the real clock. If
// the coarse clock is stopped, Valid starts it.
func (w *Watchdog) Valid(l *Lease) bool {
	if !l.Bounded() {
		return l.Phase() == Renewed
	}
	at, ok := w.clock.now()
	if !ok {
		w.Awake()
		return false
	}
	return l.ValidAt(at + int64(coarseSlack))
}
