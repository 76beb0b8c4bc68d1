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
			return printDone(w, o, r.node, "has left", r.err)
		case <-look.C:
		}
		left, entities, ok := shardsLeft(ctx, c, m.Address)
		if ok && left != last && !o.json {
			if _, err := fmt.Fprintf(w, "%s still has %d shards with %d entities\n", m.Name, left, entities); err != nil {
				return err
			}
			last = left
		}
	}
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
