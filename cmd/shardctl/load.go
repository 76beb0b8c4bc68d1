package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// top prints the busiest methods, entities and callers. With -f it repeats that.
func top(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	before, err := c.Turns(ctx)
	if err != nil {
		return err
	}
	for {
		select {
		case <-time.After(o.every):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := c.Turns(ctx)
		switch {
		case err != nil && ctx.Err() != nil && o.follow:
			return nil // it was told to end
		case err != nil:
			return err
		}
		if err := printTop(w, o, clusterview.RatesBetween(o.cluster, before, after)); err != nil || !o.follow {
			return err
		}
		before = after
	}
}

// longRunning is the age in seconds at which top begins to print a running turn.
const longRunning = 0.1

func printTop(w io.Writer, o *options, top clusterview.Rates) error {
	if o.json {
		return printJSON(w, top)
	}
	if o.follow {
		fmt.Fprint(w, "\x1b[H\x1b[2J") // the cursor to the top, and the screen cleared
	}
	fmt.Fprintf(w, "%s, %.1f s\n\n", top.Cluster, top.Seconds)
	for _, t := range topTables(o, top) {
		if err := t.print(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if len(top.Silent) > 0 {
		return fmt.Errorf("cluster %s: not all members have answered: %v", o.cluster, verdict.SortedKeys(top.Silent))
	}
	return nil
}

func topTables(o *options, top clusterview.Rates) []*table {
	nodes := tableOf(o, "NODE", "TURNS/S", "RUNNING AT A TIME")
	for _, n := range top.Nodes {
		nodes.row(n.Node, fmt.Sprintf("%.1f", n.Rate), fmt.Sprintf("%.2f", n.Busy))
	}
	types := tableOf(o, "TYPE", "TURNS/S", "FAILED/S", "MEAN", "P99")
	for _, t := range top.Types[:min(o.rows, len(top.Types))] {
		p99 := "-" // the members run an older version, without P99
		if t.P99 > 0 {
			p99 = fmt.Sprint(short(t.P99))
		}
		types.row(t.Type, fmt.Sprintf("%.1f", t.Rate), fmt.Sprintf("%.1f", t.Failed), short(t.Mean), p99)
	}
	methods := tableOf(o, "METHOD", "TURNS/S", "FAILED/S", "MEAN", "LONGEST")
	for _, m := range top.Methods[:min(o.rows, len(top.Methods))] {
		methods.row(m.Type+"."+m.Method, fmt.Sprintf("%.1f", m.Rate), fmt.Sprintf("%.1f", m.Failed), short(m.Mean), short(m.Longest))
	}
	entities := tableOf(o, "ENTITY", "TURNS/S", "BUSY", "NODE")
	for _, e := range top.Entities[:min(o.rows, len(top.Entities))] {
		entities.row(e.Type+"/"+e.ID, fmt.Sprintf("%.1f", e.Rate), fmt.Sprintf("%.0f%%", 100*e.Busy), e.Node)
	}
	callers := tableOf(o, "CALLER", "CALLS/S", "OF")
	for _, c := range top.Callers[:min(o.rows, len(top.Callers))] {
		callers.row(c.From, fmt.Sprintf("%.1f", c.Rate), c.Type+"/"+c.ID)
	}
	all := []*table{nodes, types, methods, entities, callers}
	shown := slices.DeleteFunc(slices.Clone(top.Running), func(r clusterview.RunningTurn) bool { return r.Seconds < longRunning })
	if len(shown) == 0 {
		return all
	}
	running := tableOf(o, "TURN THAT RUNS", "FOR", "CALLED BY")
	for _, r := range shown[:min(o.rows, len(shown))] {
		running.row(r.Type+"/"+r.ID+"."+r.Method, short(r.Seconds), r.From)
	}
	return append(all, running)
}

func short(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}

// A jsonStats is the output of stats -json. Fields are added, never changed.
type jsonStats struct {
	clusterview.Rates
	Counters []jsonCounters `json:"counters"`
}

func stats(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	before, err := c.Turns(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(o.every):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := c.Turns(ctx)
	if err != nil {
		return err
	}
	rates := clusterview.RatesBetween(o.cluster, before, after)
	if o.json {
		all, err := c.Counters(ctx)
		if err != nil {
			return err
		}
		rows, _ := counterRows(all)
		return printJSON(w, jsonStats{rates, rows})
	}
	fmt.Fprintf(w, "%s, %.1f s\n\n", rates.Cluster, rates.Seconds)
	o.rows = max(len(rates.Methods), len(rates.Nodes)) // all of them
	for _, t := range topTables(o, rates)[:2] {
		if err := t.print(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return counters(ctx, c, o, w)
}

// A jsonCounters is one member in counters -json. Fields are added, never changed.
type jsonCounters struct {
	Node     string            `json:"node"`
	Counters map[string]uint64 `json:"counters"`
	Error    string            `json:"error,omitempty"`
}

func counters(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Counters(ctx)
	if err != nil {
		return err
	}
	rows, sums := counterRows(all)
	if o.json {
		return printJSON(w, rows)
	}
	if err := printCounters(w, o, rows, sums); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Error != "" {
			return fmt.Errorf("cluster %s: %s does not answer: %s", o.cluster, r.Node, r.Error)
		}
	}
	return nil
}

// counterRows returns the counters that are not 0, and their sums.
func counterRows(all []admin.NodeCounters) (rows []jsonCounters, sums map[string]uint64) {
	rows, sums = []jsonCounters{}, map[string]uint64{}
	for _, n := range all {
		row := jsonCounters{Node: n.Node.String(), Counters: map[string]uint64{}}
		if n.Err != nil {
			row.Error = n.Err.Error()
		}
		for reason, count := range n.Counters {
			if count > 0 {
				row.Counters[reason] = count
				sums[reason] += count
			}
		}
		rows = append(rows, row)
	}
	return rows, sums
}

func printCounters(w io.Writer, o *options, rows []jsonCounters, sums map[string]uint64) error {
	t := tableOf(o, "COUNT", "REASON", "AT")
	for _, reason := range verdict.SortedKeys(sums) {
		var at []string
		for _, r := range rows {
			if n := r.Counters[reason]; n > 0 {
				at = append(at, fmt.Sprintf("%s=%d", nameOf(r.Node), n))
			}
		}
		t.row(sums[reason], reason, list(at))
	}
	return t.print(w)
}
