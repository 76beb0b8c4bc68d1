package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	shard "github.com/shardgen/shardgen/runtime"
)

// clustered calls entities by id over three members, from a member and from
// outside.
func clustered(ctx context.Context, s settings, url string) error {
	for i := range 2 {
		c, _, err := spawn(url, "host", "trio", "host"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer func() { _ = c.End() }()
	}
	node, err := process.Member(ctx, process.Config(url, "trio", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = node.Close() }()
	conn, err := shard.Dial(ctx, process.Config(url, "trio", "outside"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	pair, _, err := spawn(url, "host", "alone", "host")
	if err != nil {
		return err
	}
	defer func() { _ = pair.End() }()
	direct, err := shard.Dial(ctx, process.Config(url, "alone", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = direct.Close() }()
	time.Sleep(3 * time.Second) // shards spread over the members that came later
	payload := make([]byte, 64)
	var runs []contestant
	for _, c := range []struct {
		name   string
		caller shard.Caller
	}{{"shardgen", node}, {"outside", conn}, {"one host", direct}} {
		refs, err := references(c.caller, entities)
		if err != nil {
			return err
		}
		runs = append(runs, contestant{c.name, echo(refs, callers, payload)})
	}
	for _, g := range []group{
		{[]contestant{runs[0], runs[2]}, []row{{title: "entities over three processes, from a member", unit: "/s", figure: perSecond, target: "≥ 0.8×"}}},
		{[]contestant{runs[1], runs[2]}, []row{{title: "the same, from outside", unit: "/s", figure: perSecond, target: "≥ 0.6×"}}},
	} {
		if err := g.print(os.Stdout, s.rounds, s.time); err != nil {
			return err
		}
	}
	return nil
}
