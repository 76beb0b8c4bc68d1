package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// top prints the busiest methods, entities, callers and nodes of some seconds, and with -f again and
// again.
func top(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	before, err := c.Turns(ctx) // the members begin to count
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

// longRunning is how long a turn runs before top shows it.
const longRunning = 0.1

func printTop(w io.Writer, o *options, top clusterview.Rates) error {
	if o.json {
		return printJSON(w, top)
	}
	if o.follow {
		fmt.Fprint(w, "\x1b[H\x1b[2J") // the cursor to the top, and the screen cleared
	}
	fmt.Fprintf(w, "%s, %.1f s\n\n", top.Cluster, top.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tTURNS/S\tRUNNING AT A TIME")
	for _, n := range top.Nodes {
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\n", n.Node, n.Rate, n.Busy)
	}
	fmt.Fprintln(t, "\t\t\nMETHOD\tTURNS/S\tFAILED/S\tMEAN\tLONGEST")
	for _, m := range top.Methods[:min(o.rows, len(top.Methods))] {
		fmt.Fprintf(t, "%s.%s\t%.1f\t%.1f\t%v\t%v\n", m.Type, m.Method, m.Rate, m.Failed, short(m.Mean), short(m.Longest))
	}
	fmt.Fprintln(t, "\t\t\nENTITY\tTURNS/S\tBUSY\tNODE")
	for _, e := range top.Entities[:min(o.rows, len(top.Entities))] {
		fmt.Fprintf(t, "%s/%s\t%.1f\t%.0f%%\t%s\n", e.Type, e.ID, e.Rate, 100*e.Busy, e.Node)
	}
	fmt.Fprintln(t, "\t\t\nCALLER\tCALLS/S\tOF")
	for _, c := range top.Callers[:min(o.rows, len(top.Callers))] {
		fmt.Fprintf(t, "%s\t%.1f\t%s/%s\n", c.From, c.Rate, c.Type, c.ID)
	}
	shown := slices.DeleteFunc(slices.Clone(top.Running), func(r clusterview.RunningTurn) bool { return r.Seconds < longRunning })
	if len(shown) > 0 {
		fmt.Fprintln(t, "\t\t\nTURN THAT RUNS\tFOR\tCALLED BY")
	}
	for _, r := range shown[:min(o.rows, len(shown))] {
		longer := ""
		if r.Earlier {
			longer = ">"
		}
		fmt.Fprintf(t, "%s/%s.%s\t%s%v\t%s\n", r.Type, r.ID, r.Method, longer, short(r.Seconds), r.From)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(top.Silent) > 0 {
		return fmt.Errorf("cluster %s: not all members have answered: %v", o.cluster, clusterview.SortedKeys(top.Silent))
	}
	return nil
}

// short is a number of seconds for people.
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
