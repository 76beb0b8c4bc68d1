package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of stats. Fields are added, never changed.
type jsonStats struct {
	clusterview.Rates
	Counters []jsonCounters `json:"counters"`
}

// stats prints the load of some seconds by member and type, and the counters.
func stats(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	before, err := c.Turns(ctx) // the members begin to count
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
