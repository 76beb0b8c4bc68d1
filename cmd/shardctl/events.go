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

// The JSON of events, one line for each. Fields are added, never changed.
type jsonEvent struct {
	Time  time.Time  `json:"time"`
	Level slog.Level `json:"level"`
	Node  string     `json:"node"`
	Also  []string   `json:"also,omitempty"`
	Text  string     `json:"text"`
	Attrs string     `json:"attrs,omitempty"`
}

// eventsAgain is the pause between two questions of events -f.
const eventsAgain = 500 * time.Millisecond

// eventFilter decides which events are printed.
type eventFilter struct {
	when  span
	level slog.Level
	word  string
}

func (f eventFilter) passes(e admin.Event) bool {
	return f.when.has(e.Time) && e.Level >= f.level &&
		(strings.Contains(e.Text, f.word) || strings.Contains(e.Attrs, f.word) || strings.HasPrefix(e.Node.Name, f.word))
}

// events prints the log lines of all members, and with -f goes on with those that follow.
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

// printGap prints why events -f has heard nothing new.
func printGap(w io.Writer, o *options, why error) error {
	if o.json {
		return printJSONLine(w, map[string]string{"error": why.Error()})
	}
	_, err := fmt.Fprintln(w, "…", why)
	return err
}
