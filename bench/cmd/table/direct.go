package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// direct compares calls on a direct lane with calls over the broker, and with code written by hand
// on NATS.
func direct(ctx context.Context, s settings, url string) error {
	for _, role := range []string{"answer", "host"} {
		c, _, err := spawn(url, role, "pair", role)
		if err != nil {
			return err
		}
		defer func() { _ = c.End() }()
	}
	c, _, err := spawn(url, "host-direct", "direct", "host")
	if err != nil {
		return err
	}
	defer func() { _ = c.End() }()
	broker, err := shard.Dial(ctx, process.Config(url, "pair", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = broker.Close() }()
	conn, err := shard.Dial(ctx, process.Direct(url, "direct", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	over, err := references(broker, entities)
	if err != nil {
		return err
	}
	refs, err := references(conn, entities)
	if err != nil {
		return err
	}
	if err := process.AwaitDirect(ctx, conn, refs[0]); err != nil {
		return err
	}
	l, err := limit.NewHand(url)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, size := range payloads {
		if err := directRows(s, refs, over, l, size); err != nil {
			return err
		}
	}
	if err := directTells(ctx, s, conn, broker, refs, over, l); err != nil {
		return err
	}
	fmt.Printf("\ndirect lanes opened: %d (more than one: a direct lane broke and was opened again)\n", conn.Counters()["direct lane opened"])
	return nil
}

func directRows(s settings, refs, over []fixture.AccountRef, l *limit.Hand, size int) error {
	payload, text := make([]byte, size), ", "+strconv.Itoa(size)+" B"
	contestants := func(n int) []contestant {
		ours := []contestant{{"direct", echo(refs, n, payload)}, {"broker", echo(over, n, payload)}}
		return append(ours, byHand(l, n, payload)...)
	}
	single := group{contestants(1), []row{
		{title: "direct call, one after another, p50" + text, unit: "µs", figure: p50, less: true, target: "≥ 2× broker"},
		{title: "its p99" + text, unit: "µs", figure: p99, less: true},
	}}
	many := group{contestants(callers), []row{
		{title: "direct calls, 256 callers" + text, unit: "/s", figure: perSecond, target: "≥ 1.3× broker"},
		{title: "its p99" + text, unit: "µs", figure: p99, less: true},
		{title: "the caller's processor time" + text, unit: "ns", figure: cpu, less: true},
	}}
	if err := single.print(os.Stdout, s.rounds, s.time); err != nil {
		return err
	}
	return many.print(os.Stdout, s.rounds, s.time)
}

func directTells(ctx context.Context, s settings, conn, broker shard.Caller, refs, over []fixture.AccountRef, l *limit.Hand) error {
	each := limit.TellWindow / runtime.GOMAXPROCS(0) // as many under way as the limit has
	ours := func(c shard.Caller, refs []fixture.AccountRef) func(time.Duration) (measure, error) {
		client := fixture.NewAccountClient(c)
		tells := make([]fixture.AccountTell, 256)
		for i := range tells {
			tells[i] = client.Tell(id(i))
		}
		return func(d time.Duration) (measure, error) { return tellAll(ctx, d, each, refs[:len(tells)], tells) }
	}
	g := group{[]contestant{
		{"direct", ours(conn, refs)}, {"broker", ours(broker, over)}, {"batched", tellsByHand(l)},
	}, []row{{title: "direct tells", unit: "/s", figure: perSecond, target: "≥ 1× broker"}}}
	return g.print(os.Stdout, s.rounds, s.time)
}
