package main

import (
	"fmt"
	"time"
)

// around is how far before and after the time of -at events are printed.
const around = 2 * time.Minute

// moments are the layouts of times on the command line, in the local zone unless they name one.
var moments = []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.TimeOnly, "15:04"}

// momentOf reads a time: a duration before now, as in 30m; a time of the last 24 hours, as in 02:14 or
// 02:14:30; or one with its date.
func momentOf(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, fmt.Errorf("%s is after now (want a duration before now, as in 30m)", text)
		}
		return now.Add(-d), nil
	}
	for _, layout := range moments {
		at, err := time.ParseInLocation(layout, text, now.Location())
		switch {
		case err != nil:
			continue
		case at.Year() > 0:
			return at, nil
		}
		at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time (want 30m, 02:14, 02:14:30, 2026-11-24 02:14 or 2026-11-24T02:14:00Z)", text)
}

// A span is the time from which and to which events are printed.
type span struct{ from, to time.Time } // zero: without a bound

// spanOf reads the flags -at, -since and -until.
func spanOf(at, since, until string, now time.Time) (s span, err error) {
	if at != "" {
		if since != "" || until != "" {
			return s, fmt.Errorf("-at stands for -since and -until: give it alone")
		}
		middle, err := momentOf(at, now)
		return span{middle.Add(-around), middle.Add(around)}, err
	}
	if since != "" {
		if s.from, err = momentOf(since, now); err != nil {
			return s, fmt.Errorf("-since: %w", err)
		}
	}
	if until != "" {
		if s.to, err = momentOf(until, now); err != nil {
			return s, fmt.Errorf("-until: %w", err)
		}
	}
	return s, nil
}

// has reports whether a time is within the span.
func (s span) has(at time.Time) bool {
	return !at.Before(s.from) && (s.to.IsZero() || !at.After(s.to))
}
