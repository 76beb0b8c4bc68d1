package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
			if _, err := fmt.Fprintln(w, "…", err); err != nil {
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

// moves prints the moves of shards under way, and those that were given up lately.
func moves(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	all, at, err := c.Moves(ctx)
	if err != nil {
		return err
	}
	lately, silent := c.Events().Next(ctx) // those of the members that answer come with an error, too
	lately = slices.DeleteFunc(lately, func(e admin.Event) bool {
		return time.Since(e.Time) > o.since || !slices.Contains(ended, strings.TrimPrefix(e.Text, coordinatorSays))
	})
	if o.json {
		j := movesOf(o.cluster, at.String(), all, lately)
		j.Pause = pauseOf(v)
		return orErr(printJSON(w, j), silent)
	}
	fmt.Fprintf(w, "%s%d moves under way, as the coordinator at %s knows\n", pausedSince(v.Pause), len(all), at.Name)
	for _, m := range all {
		fmt.Fprintf(w, "%s/%d %s→%s for %v, %s: %s\n", m.Kind, m.Shard, m.From.Name, m.To.Name, m.For.Round(time.Millisecond), m.Why, m.Phase)
	}
	fmt.Fprintf(w, "ended in the last %v: %d\n", o.since, len(lately))
	for _, e := range lately {
		fmt.Fprintf(w, "%s %s %s\n", e.Time.Local().Format("15:04:05.000"), strings.TrimPrefix(e.Text, coordinatorSays), e.Attrs)
	}
	return silent
}

// coordinatorSays begins the text of the coordinator's decisions.
const coordinatorSays = "coordinator: "

// ended are the decisions that end a move.
var ended = []string{"move committed", "move resumed", "move promoted"}

type (
	jsonMove struct {
		Type    string  `json:"type"`
		Shard   uint32  `json:"shard"`
		From    string  `json:"from"`
		To      string  `json:"to"`
		Epoch   string  `json:"epoch"`
		Why     string  `json:"why"`
		Phase   string  `json:"phase"`
		Seconds float64 `json:"seconds"`
	}
	jsonMoves struct {
		Cluster     string      `json:"cluster"`
		Coordinator string      `json:"coordinator"`
		Moves       []jsonMove  `json:"moves"`
		Ended       []jsonEvent `json:"ended"`
		Pause       *jsonPause  `json:"pause,omitempty"` // of rebalancing
	}
)

func movesOf(cluster, at string, all []admin.Move, lately []admin.Event) jsonMoves {
	j := jsonMoves{Cluster: cluster, Coordinator: at, Moves: []jsonMove{}, Ended: []jsonEvent{}}
	for _, m := range all {
		j.Moves = append(j.Moves, jsonMove{m.Kind, m.Shard, m.From.String(), m.To.String(), m.Epoch, m.Why, m.Phase, m.For.Seconds()})
	}
	for _, e := range lately {
		j.Ended = append(j.Ended, jsonEvent{e.Time.UTC(), e.Level, e.Node.String(), stringsOf(e.Also), e.Text, e.Attrs})
	}
	return j
}
