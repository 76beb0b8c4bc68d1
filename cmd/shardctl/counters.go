package main

import (
	"context"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of counters, one for each member. Fields are added, never changed.
type jsonCounters struct {
	Node     string            `json:"node"`
	Counters map[string]uint64 `json:"counters"`
	Error    string            `json:"error,omitempty"`
}

// counters prints the counters of each member, without zeros.
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

// counterRows are the counters of each member without those that are 0, and their sums.
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

// printCounters prints a line for each reason.
func printCounters(w io.Writer, o *options, rows []jsonCounters, sums map[string]uint64) error {
	t := tableOf(o, "COUNT", "REASON", "AT")
	for _, reason := range clusterview.SortedKeys(sums) {
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
