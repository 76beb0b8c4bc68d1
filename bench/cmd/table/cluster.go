package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	shard "github.com/shardgen/shardgen/runtime"
)

// clustered measures calls by id to three members, from one of them and from a client.
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
	time.Sleep(3 * time.Second) // shards spread to the members that joined later
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

// forming measures the time from a third node's Start until the cluster is formed, and the time of
// a fresh process's first call.
func forming(ctx context.Context, s settings, url string) error {
	round := 0
	var firsts []measure
	form := func(time.Duration) (measure, error) {
		round++
		cluster := "forming" + strconv.Itoa(round)
		for i := range 2 {
			c, _, err := spawn(url, "host", cluster, "host"+strconv.Itoa(i))
			if err != nil {
				return measure{}, err
			}
			defer func() { _ = c.End() }()
		}
		begin := time.Now()
		node, err := process.Member(ctx, process.Config(url, cluster, "third"))
		took := time.Since(begin)
		if err != nil {
			return measure{}, err
		}
		defer func() { _ = node.Close() }()
		c, line, err := spawn(url, "first", cluster, "fresh")
		if err != nil {
			return measure{}, err
		}
		if err := c.End(); err != nil {
			return measure{}, err
		}
		nanos, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return measure{}, fmt.Errorf("first call: %w", err)
		}
		firsts = append(firsts, measure{Value: float64(nanos) / 1e6})
		return measure{Value: float64(took.Nanoseconds()) / 1e6}, nil
	}
	if err := (group{[]contestant{{"shardgen", form}}, []row{{
		title: "three nodes form, from the third Start", unit: "ms", figure: value, target: "≤ 1 s",
	}}}).print(os.Stdout, s.rounds, 0); err != nil {
		return err
	}
	i := -1
	again := func(time.Duration) (measure, error) {
		i++
		return firsts[i], nil
	}
	return group{[]contestant{{"shardgen", again}}, []row{{
		title: "first call of a fresh process, from Dial", unit: "ms", figure: value, target: "≤ 100 ms",
	}}}.print(os.Stdout, s.rounds, 0)
}
