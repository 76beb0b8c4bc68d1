package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonLoad is one line of the output of load -json, in processors. Fields are added, never changed.
type jsonLoad struct {
	Node     string          `json:"node"`
	Zone     string          `json:"zone,omitempty"`
	Used     float64         `json:"used"`
	Capacity float64         `json:"capacity,omitempty"`
	GC       float64         `json:"gc"`               // share of used
	Memory   float64         `json:"memory,omitempty"` // share of GOMEMLIMIT; 0: no limit
	Hottest  []jsonShardLoad `json:"hottest,omitempty"`
	Error    string          `json:"error,omitempty"` // why the member has not answered
}

type jsonShardLoad struct {
	Type  string  `json:"type"`
	Shard uint32  `json:"shard"`
	Used  float64 `json:"used"`
}

// shownHottest is how many of a member's hottest shards are in the table.
const shownHottest = 3

// load prints the processor time of the members, and which of their shards use most.
func load(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	t := tableOf(o, "NODE", "ZONE", "USED", "OF", "LOAD", "GC", "MEMORY", "HOTTEST SHARDS")
	for _, f := range all {
		j := jsonLoad{Node: f.Node.Name}
		switch {
		case f.Err != nil:
			j.Error = f.Err.Error()
		case f.Load == nil:
			j.Error = "its release does not measure its load"
		default:
			j.Zone, j.Used, j.Capacity, j.GC, j.Memory = f.Load.Zone, f.Load.Used, f.Load.Capacity, f.Load.GC, f.Load.Memory
			for _, s := range f.Load.Hottest {
				j.Hottest = append(j.Hottest, jsonShardLoad{s.Kind, s.Shard, s.Used})
			}
		}
		if o.json {
			err = errors.Join(err, printJSONLine(w, j))
			continue
		}
		if j.Error != "" {
			t.row(j.Node, "", "", "", "", "", "", "no answer: "+j.Error)
			continue
		}
		memory := "no limit"
		if j.Memory > 0 {
			memory = percent(j.Memory)
		}
		var hottest []string
		for _, s := range j.Hottest[:min(shownHottest, len(j.Hottest))] {
			hottest = append(hottest, fmt.Sprintf("%s/%d=%.2f", s.Type, s.Shard, s.Used))
		}
		t.row(j.Node, j.Zone, fmt.Sprintf("%.2f", j.Used), fmt.Sprintf("%.4g", j.Capacity), percent(j.Used/j.Capacity), percent(j.GC), memory, strings.Join(hottest, " "))
	}
	if o.json || err != nil {
		return err
	}
	return t.print(w)
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
