package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// moves prints the moves of shards under way, and those that ended lately.
func moves(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	all, at, err := c.Moves(ctx)
	if err != nil {
		return err
	}
	lately, silent := c.Events().Next(ctx) // with an error, too, come the lines of the members that answer
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
