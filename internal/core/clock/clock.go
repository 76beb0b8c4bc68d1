// Package clock computes the time of a store from the store's answers, without I/O, and without the
// wall clock of this process.
//
// An [Estimator] takes answers and returns a [Reading], which converts the process's monotonic time
// to the store's time. The result is behind the store's clock by at most the round trip of the
// chosen answer, and never ahead, so nothing is done before it is due. Both bounds grow by the
// clocks' drift since that answer. A [Line] is such a time without jumps.
package clock

import "time"

const (
	// kept is how many answers the estimate is chosen from.
	kept = 10
	// Step is the least difference from the estimate at which an answer contradicts it.
	Step = time.Second
	// agreeing is how many answers in a row must contradict the estimate, and agree with each
	// other, to replace it: then the store's clock was set.
	agreeing = 3
	// drift is how many nanoseconds of monotonic time two clocks take to drift apart by 1 ns (100
	// parts in a million).
	drift = 10_000
)

// A Sample is one answer of the store. Sent and Received are readings of the process's monotonic
// clock, when the request left and when the answer came.
type Sample struct {
	Sent, Received time.Duration
	Store          time.Time
}

// A Reading has the store's time when the process's monotonic clock was at 0.
type Reading struct{ zero int64 } // Unix time in nanoseconds

// ReadingAt returns the reading whose store time is t at the given monotonic time.
func ReadingAt(t time.Time, monotonic time.Duration) Reading {
	return Reading{t.UnixNano() - int64(monotonic)}
}

// At returns the store's time at a monotonic time.
func (r Reading) At(monotonic time.Duration) time.Time {
	return time.Unix(0, r.zero+int64(monotonic)).UTC()
}

// Sub returns by how much r is ahead of other.
func (r Reading) Sub(other Reading) time.Duration { return time.Duration(r.zero - other.zero) }

// An answer is what a sample says: the store's time, and how wrong it may be.
type answer struct {
	reading Reading
	slack   time.Duration // how wrong the answer may be at the monotonic time came
	came    time.Duration // the monotonic time at which the answer came
}

// errorAt bounds the answer's error at a monotonic time.
func (a *answer) errorAt(monotonic time.Duration) time.Duration {
	return a.slack + (monotonic-a.came)/drift
}

// contradicts reports whether a and b cannot both come from one clock that was never set.
func (a *answer) contradicts(b *answer) bool {
	now := max(a.came, b.came)
	return a.reading.Sub(b.reading).Abs() >= Step+a.errorAt(now)+b.errorAt(now)
}

// An Estimator estimates the store's time from the store's last answers. It uses the answer with
// the smallest possible error. The possible error of an answer grows with the answer's round trip
// and age.
//
// If the store's clock is set by more than [Step], its answers contradict the estimate. After three
// such answers in a row that agree with each other, the estimate follows them. So a single wrong
// answer has no effect, and neither has a wrong clock at one of several servers.
type Estimator struct {
	answers []answer // that agree, at most kept, oldest first
	doubted []answer // the last answers, which contradict the estimate and agree with each other
}

// Add takes an answer and returns the estimate. It returns false before the first answer. Answers
// must be added in the order of Received; impossible ones are ignored.
func (e *Estimator) Add(s Sample) (Reading, bool) {
	// Times beyond these years do not fit in nanoseconds; no store has them.
	if year := s.Store.Year(); year >= 1970 && year < 2200 && s.Sent <= s.Received {
		// The store gave its time when the request left, at the earliest, and at the latest now.
		e.add(answer{ReadingAt(s.Store, s.Received), s.Received - s.Sent, s.Received})
	}
	return e.estimate(s.Received)
}

func (e *Estimator) add(a answer) {
	if best := e.best(a.came); best == nil || !a.contradicts(best) {
		e.answers, e.doubted = append(e.answers, a), nil
		if len(e.answers) > kept {
			e.answers = e.answers[1:]
		}
		return
	}
	if len(e.doubted) > 0 && a.contradicts(&e.doubted[0]) {
		e.doubted = nil
	}
	if e.doubted = append(e.doubted, a); len(e.doubted) == agreeing {
		e.answers, e.doubted = e.doubted, nil
	}
}

// best returns the answer with the smallest error, the later one of equals, or nil.
func (e *Estimator) best(now time.Duration) (best *answer) {
	for i := range e.answers {
		if a := &e.answers[i]; best == nil || a.errorAt(now) <= best.errorAt(now) {
			best = a
		}
	}
	return best
}

func (e *Estimator) estimate(now time.Duration) (Reading, bool) {
	if best := e.best(now); best != nil {
		return best.reading, true
	}
	return Reading{}, false
}

// Error bounds how far the estimate is behind the store's clock, at a monotonic time; 0 without an answer.
func (e *Estimator) Error(now time.Duration) time.Duration {
	if best := e.best(now); best != nil {
		return best.errorAt(now)
	}
	return 0
}

// Doubted reports whether the last answer contradicts the estimate.
func (e *Estimator) Doubted() bool { return len(e.doubted) > 0 }

// A Line is a time by which timeouts can be measured: it follows readings, but never goes back and
// never jumps. It begins at its first reading. A later reading can differ from the line, because a
// better answer came or the store's clock was set. The line then approaches the reading: it runs up
// to a tenth faster than the monotonic clock, or down to half as fast. The zero value is ready for
// use.
type Line struct {
	last  int64         // Unix time in nanoseconds
	at    time.Duration // monotonic time of last
	begun bool
}

// Now returns the time at a monotonic time. A monotonic time before that of the last call counts as
// that of the last call.
func (l *Line) Now(r Reading, monotonic time.Duration) time.Time {
	now := r.zero + int64(monotonic)
	if l.begun {
		monotonic = max(monotonic, l.at)
		passed := int64(monotonic - l.at)
		now = min(max(now, l.last+passed/2), l.last+passed+passed/10)
	}
	l.last, l.at, l.begun = now, monotonic, true
	return time.Unix(0, now).UTC()
}

// Reading returns the reading that agrees with the line's last time.
func (l *Line) Reading() Reading { return Reading{l.last - int64(l.at)} }
