package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A Kind says how a schedule's due times follow each other. Kinds are stored; their values do not
// change.
type Kind uint8

const (
	KindOnce  Kind = 1 // at Due
	KindEvery Kind = 2 // each Period, from Due on
	KindCron  Kind = 3 // at the times of Cron in Zone
)

const (
	// MinPeriod is the shortest Period.
	MinPeriod = time.Second
	// MaxCatchUp bounds the due times of the past that CatchUp still fires.
	MaxCatchUp = 1000
	// MaxCounted bounds the missed due times of a cron text that are counted.
	MaxCounted = 10_000
)

// A Schedule says when a reminder is due. Its due times and durations are whole milliseconds.
//
// If several due times have passed when a reminder is handled, it fires once for all of them, unless
// CatchUp or SkipLate says otherwise.
type Schedule struct {
	Kind Kind
	// Due is the due time of KindOnce. For KindEvery it is the start of the grid, whose first point
	// is one Period later; by default, the argument now of First.
	Due time.Time
	// Period is the time between due times of KindEvery. Minimum 1 s.
	Period time.Duration
	// Cron and Zone are those of KindCron, as [ParseCron] reads them.
	Cron, Zone string
	// Jitter is the delay of each due time: one value per reminder, from [Spread]. Default 0.
	Jitter time.Duration
	// CatchUp fires each due time that has passed, up to MaxCatchUp of them. Default: one firing
	// for all.
	CatchUp bool
	// SkipLate, if above 0, drops a due time that is handled more than SkipLate after it. Default
	// 0.
	SkipLate time.Duration
}

// Check returns what is wrong with the schedule. It also fails if this machine lacks the zone.
func (s Schedule) Check() error {
	for _, d := range []struct {
		name    string
		v, from time.Duration
	}{{"period", s.Period, s.minPeriod()}, {"jitter", s.Jitter, 0}, {"skip late", s.SkipLate, 0}} {
		if d.v < d.from {
			return fmt.Errorf("schedule: %s: %v: want at least %v", d.name, d.v, d.from)
		}
		if d.v%time.Millisecond != 0 {
			return fmt.Errorf("schedule: %s: %v: want whole milliseconds", d.name, d.v)
		}
	}
	switch {
	case s.Kind == 0:
		return errors.New("schedule: no due time (add shard.In, shard.At, shard.Every or shard.Cron)")
	case s.Kind > KindCron:
		return fmt.Errorf("schedule: unknown kind %d", s.Kind)
	case s.Kind == KindOnce && s.Due.IsZero():
		return errors.New("schedule: no due time")
	case s.Due.Year() > maxYear:
		return fmt.Errorf("schedule: due time: %v: want at most the year %d", s.Due.UTC(), maxYear)
	case s.Kind == KindCron:
		if _, err := ParseCron(s.Cron, s.Zone); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	return nil
}

func (s Schedule) minPeriod() time.Duration {
	if s.Kind == KindEvery {
		return MinPeriod
	}
	return 0
}

// First returns the due time of a reminder that is set at the time now. The due time of KindOnce
// may have passed. First fails as Check does, or if no due time follows up to the year 9999.
func (s Schedule) First(now time.Time) (time.Time, error) {
	if err := s.Check(); err != nil {
		return time.Time{}, err
	}
	if s.Kind == KindOnce {
		return s.at(s.Due.UnixMilli()), nil
	}
	start := s.Due
	if start.IsZero() {
		start = now
	}
	t, err := s.times(start.UnixMilli())
	if err != nil {
		return time.Time{}, err
	}
	first, ok := t.after(max(now.UnixMilli(), start.UnixMilli()))
	if !ok {
		return time.Time{}, errors.New("schedule: no due time up to the year 9999")
	}
	return s.at(first), nil
}

// Skip reports whether a due time is to be dropped because it is too late.
func (s Schedule) Skip(due, now time.Time) bool {
	return s.SkipLate > 0 && now.UnixMilli()-due.UnixMilli() > s.SkipLate.Milliseconds()
}

// Next returns the next time at which to fire, when the due time due was fired or, because of Skip,
// dropped. next may already have passed: then fire it at once. next is zero if no due time follows.
//
// missed is the number of due times between due and next. They are not fired. For a cron text, a
// count of MaxCounted is a lower bound. Next fails as Check does, also if this program does not
// know the zone because a program with newer zones has set the schedule. The reminder must then be
// kept.
func (s Schedule) Next(due, now time.Time) (next time.Time, missed int, err error) {
	if err := s.Check(); err != nil || s.Kind == KindOnce {
		return time.Time{}, 0, err
	}
	jitter := s.Jitter.Milliseconds()
	from, until := due.UnixMilli()-jitter, now.UnixMilli()-jitter
	t, err := s.times(from)
	if err != nil {
		return time.Time{}, 0, err
	}
	passed := until // one firing for all
	if s.CatchUp || s.Skip(due, now) {
		passed = from
		if s.SkipLate > 0 {
			passed = until - s.SkipLate.Milliseconds() - 1
		}
	}
	passed = max(passed, from)
	if s.CatchUp {
		passed = t.beforeLast(MaxCatchUp-1, passed, until)
	}
	missed = t.count(from, passed)
	following, ok := t.after(passed)
	if !ok {
		return time.Time{}, missed, nil
	}
	return s.at(following), missed, nil
}

// at adds the jitter to ms, a due time without jitter in Unix milliseconds.
func (s Schedule) at(ms int64) time.Time {
	return time.UnixMilli(ms + s.Jitter.Milliseconds()).UTC()
}

// Spread returns the Jitter of a reminder: at least 0 and below limit, always the same for one
// entity and name.
func Spread(limit time.Duration, entity, name string) time.Duration {
	h := xxhash.New()
	h.WriteString(entity)
	h.Write([]byte{0})
	h.WriteString(name)
	hi, _ := bits.Mul64(h.Sum64(), uint64(max(limit.Milliseconds(), 0)))
	return time.Duration(hi) * time.Millisecond
}

// times are the due times of a schedule without jitter, in Unix milliseconds, on a grid or by a
// cron text.
type times struct {
	start, period int64
	cron          *Cron
}

// times returns the due times of KindEvery, on a grid through start, or of KindCron.
func (s Schedule) times(start int64) (times, error) {
	if s.Kind == KindEvery {
		return times{start: start, period: s.Period.Milliseconds()}, nil
	}
	cron, err := ParseCron(s.Cron, s.Zone)
	return times{cron: cron}, err
}

// after returns the first due time later than ms, if there is one.
func (t times) after(ms int64) (int64, bool) {
	if t.cron == nil {
		return t.start + (t.cell(ms)+1)*t.period, true
	}
	next, ok := t.cron.Next(time.UnixMilli(ms))
	return next.UnixMilli(), ok
}

// cell returns the number of the last point of the grid that is not later than ms.
func (t times) cell(ms int64) int64 {
	n := (ms - t.start) / t.period
	if t.start+n*t.period > ms {
		n-- // the division rounds up below zero
	}
	return n
}

// each passes a cron text's due times to yield: in order, those after low and up to high, until yield
// returns false.
func (t times) each(low, high int64, yield func(ms int64) bool) {
	for ms, ok := t.after(low); ok && ms <= high && yield(ms); ms, ok = t.after(ms) {
	}
}

// count returns the number of due times after low and up to high; for a cron text, at most
// MaxCounted.
func (t times) count(low, high int64) (n int) {
	if t.cron == nil {
		return int(t.cell(high) - t.cell(low))
	}
	t.each(low, high, func(int64) bool {
		n++
		return n < MaxCounted
	})
	return n
}

// beforeLast returns the earliest time t >= low such that at most n due times are after t and up to
// high. A caller that goes on from t skips the due times up to t. n must be positive.
func (t times) beforeLast(n int, low, high int64) int64 {
	if t.cron == nil {
		return max(low, t.start+(t.cell(high)-int64(n))*t.period)
	}
	// A cron text has at most one due time in a minute, but it may have long pauses.
	for window := int64(n) * time.Minute.Milliseconds(); ; window *= 2 {
		from := max(low, high-window)
		var found []int64
		t.each(from, high, func(ms int64) bool {
			found = append(found, ms)
			return true
		})
		if len(found) > n {
			return found[len(found)-n-1]
		}
		if from == low {
			return low
		}
	}
}
