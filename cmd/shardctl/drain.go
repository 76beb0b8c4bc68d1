package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// drainLooks is the pause between two lines of drain.
const drainLooks = time.Second

// drain makes a member leave, and prints how many shards it still has.
func drain(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	type result struct {
		node transport.Address
		err  error
	}
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	m, err := v.Find(o.node)
	if err != nil {
		return fmt.Errorf("cluster %s: drain %w", o.cluster, err)
	}
	done := make(chan result, 1)
	go func() {
		node, err := c.Leave(ctx, m.Address.String())
		done <- result{node, err}
	}()
	look := time.NewTicker(drainLooks)
	defer look.Stop()
	last := -1
	for {
		select {
		case r := <-done:
			return printDrained(w, o, r.node, r.err)
		case <-look.C:
		}
		left, entities, ok := shardsLeft(ctx, c, m.Address)
		if ok && left != last {
			if err := printLeft(w, o, m.Address, left, entities); err != nil {
				return err
			}
			last = left
		}
	}
}

// The JSON of drain, one line for each look and one for the end. Fields are added, never changed.
type jsonDrain struct {
	Cluster  string `json:"cluster"`
	Node     string `json:"node"`
	Result   string `json:"result"` // leaves, has left
	Shards   int    `json:"shards"`
	Entities int    `json:"entities"`
}

// printLeft prints how many shards the member still has.
func printLeft(w io.Writer, o *options, node transport.Address, shards, entities int) error {
	if o.json {
		return printJSONLine(w, jsonDrain{o.cluster, node.String(), "leaves", shards, entities})
	}
	_, err := fmt.Fprintf(w, "%s still has %d shards with %d entities\n", node.Name, shards, entities)
	return err
}

// printDrained prints that the member has left, or returns why not.
func printDrained(w io.Writer, o *options, node transport.Address, err error) error {
	if err == nil && o.json {
		return printJSONLine(w, jsonDrain{Cluster: o.cluster, Node: node.String(), Result: "has left"})
	}
	return printDone(w, o, node, "has left", err)
}

// shardsLeft counts the shards of a member; ok is false if it does not answer.
func shardsLeft(ctx context.Context, c *admin.Client, node transport.Address) (shards, entities int, ok bool) {
	all, err := c.Shards(ctx, "")
	if err != nil {
		return 0, 0, false
	}
	for _, n := range all {
		if n.Node != node || n.Err != nil {
			continue
		}
		ok = true
		for _, t := range n.Types {
			for _, s := range t.Held {
				shards++
				entities += int(s.Entities)
			}
		}
	}
	return shards, entities, ok
}
