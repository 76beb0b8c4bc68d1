package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonEvent is one line of events -json. Fields are added, never changed.
type jsonEvent struct {
	Time  time.Time  `json:"time"`
	Level slog.Level `json:"level"`
	Node  string     `json:"node"`
	Also  []string   `json:"also,omitempty"`
	Text  string     `json:"text"`
	Attrs string     `json:"attrs,omitempty"`
}

const eventsAgain = 500 * time.Millisecond

type eventFilter struct {
	when  span
	level slog.Level
	word  string
}

func (f eventFilter) passes(e admin.Event) bool {
	return f.when.has(e.Time) && e.Level >= f.level &&
		(strings.Contains(e.Text, f.word) || strings.Contains(e.Attrs, f.word) || strings.HasPrefix(e.Node.Name, f.word))
}

func events(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	f := eventFilter{level: o.level, word: o.grep}
	var err error
	if f.when, err = spanOf(o.at, o.begin, o.until, time.Now()); err != nil {
		return err
	}
	all := c.Events()
	for {
		found, err := all.Next(ctx)
		for _, e := range found {
			if err := printEvent(w, o, f, e); err != nil {
				return err
			}
		}
		switch {
		case !o.follow:
			return err
		case err != nil && !errors.Is(err, context.Canceled):
			if err := printGap(w, o, err); err != nil {
				return err
			}
		}
		select {
		case <-time.After(eventsAgain):
		case <-ctx.Done():
			return nil // it was told to end
		}
	}
}

func printEvent(w io.Writer, o *options, f eventFilter, e admin.Event) error {
	if !f.passes(e) {
		return nil
	}
	if o.json {
		return printJSONLine(w, jsonEvent{e.Time.UTC(), e.Level, e.Node.String(), stringsOf(e.Also), e.Text, e.Attrs})
	}
	at := e.Node.Name
	if n := len(e.Also); n > 0 {
		at += fmt.Sprintf(" +%d", n)
	}
	level := ""
	if e.Level != slog.LevelInfo {
		level = e.Level.String() + " "
	}
	_, err := fmt.Fprintf(w, "%s %-8s %s%s %s\n", e.Time.Local().Format("2006-01-02 15:04:05.000"), at, level, e.Text, e.Attrs)
	return err
}

func printGap(w io.Writer, o *options, why error) error {
	if o.json {
		return printJSONLine(w, map[string]string{"error": why.Error()})
	}
	_, err := fmt.Fprintln(w, "…", why)
	return err
}

// around is the time before and after the time of -at within which lines are printed.
const around = 2 * time.Minute

// moments are accepted layouts of times. Without a zone they are local.
var moments = []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.TimeOnly, "15:04"}

// momentOf parses a time. The text may be a duration before now, such as 30m; a time in the last 24
// hours, such as 02:14; or a time with its date.
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
	return time.Time{}, fmt.Errorf("%q is not a time (want 30m, 02:14, 02:14:30, 2026-11-24 02:14 or 2026-11-24T02:14:00Z)", text)
}

type span struct{ from, to time.Time } // zero: without a bound

func spanOf(at, since, until string, now time.Time) (s span, err error) {
	if at != "" {
		if since != "" || until != "" {
			return s, fmt.Errorf("-at, -since and -until: give either -at alone, or -since and -until")
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

func (s span) has(at time.Time) bool {
	return !at.Before(s.from) && (s.to.IsZero() || !at.After(s.to))
}
