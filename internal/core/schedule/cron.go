package schedule

import (
	"math"
	"time"
)

// Bounds, in seconds, on local time's difference from UTC, and on its jumps. The largest jumps, by
// a day, were in places that changed to the other side of the date line.
const (
	maxOffset = 16 * 3600
	maxJump   = 25 * 3600
)

// maxYear is the last year in which times are due.
const maxYear = 9999

// A Cron is a parsed cron text with its zone. The zero value has no due times. A Cron does not
// change; it may be used by several goroutines.
type Cron struct {
	minute, hour, day, month, weekday uint64 // bit n: n matches
	bothDays                          bool   // a day must match both day fields
	interval                          bool   // due in each minute whose local time matches
	zone                              *time.Location
}

// Next returns the first due time later than the given time, in the zone of c. It returns false if
// there is none up to the end of the year 9999.
func (c *Cron) Next(after time.Time) (time.Time, bool) {
	if c.zone == nil || after.Year() > maxYear {
		return time.Time{}, false
	}
	next := c.nextTime
	if c.interval {
		next = c.nextInterval
	}
	unix, ok := next(after.Unix())
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(unix, 0).In(c.zone), true
}

// A span is a period of time with one offset between local time and UTC. Its bounds are Unix
// seconds, the offset is in seconds.
type span struct{ start, end, offset int64 }

// spanAt returns the span that contains a time.
func (c *Cron) spanAt(unix int64) span {
	at := time.Unix(unix, 0).In(c.zone)
	_, offset := at.Zone()
	s := span{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset)}
	start, end := at.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	return s
}

// nextInterval returns the first time whose local time matches, later than the given Unix time.
func (c *Cron) nextInterval(after int64) (int64, bool) {
	for unix := after + 1; ; {
		s := c.spanAt(unix)
		local, ok := c.match(unix + s.offset)
		if !ok {
			return 0, false
		}
		if at := local - s.offset; at < s.end {
			return at, true
		}
		unix = s.end
	}
}

// nextTime returns when the local clock first reaches or passes the earliest matching local time
// that it has not reached by the given Unix time.
func (c *Cron) nextTime(after int64) (int64, bool) {
	local, ok := c.match(c.reached(after) + 1)
	if !ok {
		return 0, false
	}
	return c.firstAt(local), true
}

// reached returns the latest local time that the clock has shown up to a Unix time. After the clock
// was set back, that is later than the local time.
func (c *Cron) reached(unix int64) int64 {
	s := c.spanAt(unix)
	latest := unix + s.offset
	for s.start > unix-maxJump {
		before := c.spanAt(s.start - 1)
		latest = max(latest, s.start-1+before.offset)
		s = before
	}
	return latest
}

// firstAt returns the Unix time at which the local clock first reaches or passes a local time.
func (c *Cron) firstAt(local int64) int64 {
	for unix := local - maxOffset - maxJump; ; {
		s := c.spanAt(unix)
		if at := local - s.offset; at < s.end {
			return max(at, unix)
		}
		unix = s.end
	}
}

// match returns the first matching minute at or after a local time. Local times are written as the
// Unix seconds that UTC has at the same reading of the clock.
func (c *Cron) match(local int64) (int64, bool) {
	if second := (local%60 + 60) % 60; second > 0 {
		local += 60 - second
	}
	at := time.Unix(local, 0).UTC()
	year, month, day := at.Date()
	minute := at.Hour()*60 + at.Minute()
	for year <= maxYear {
		if c.month&(1<<month) != 0 {
			first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			for last := daysIn(year, month); day <= last; day, minute = day+1, 0 {
				if !c.onDay(day, (int(first.Weekday())+day-1)%7) {
					continue
				}
				if m, ok := c.inDay(minute); ok {
					return first.Unix() + int64(day-1)*86400 + int64(m)*60, true
				}
			}
		}
		day, minute = 1, 0
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// onDay reports whether a day matches the fields for days.
func (c *Cron) onDay(day, weekday int) bool {
	d, w := c.day&(1<<day) != 0, c.weekday&(1<<weekday) != 0
	if c.bothDays {
		return d && w
	}
	return d || w
}

// inDay returns the first matching minute of a day at or after the given minute. Minutes count from
// midnight.
func (c *Cron) inDay(from int) (int, bool) {
	minute := from % 60
	for hour := from / 60; hour < 24; hour, minute = hour+1, 0 {
		if c.hour&(1<<hour) == 0 {
			continue
		}
		for ; minute < 60; minute++ {
			if c.minute&(1<<minute) != 0 {
				return hour*60 + minute, true
			}
		}
	}
	return 0, false
}

// daysIn returns the number of days of a month.
func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
