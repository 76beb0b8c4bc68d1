package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// payloads are the sizes of arguments and answers in bytes.
var payloads = []int{64, 1024}

func remote(ctx context.Context, s settings, url string) error {
	for _, role := range []string{"answer", "host"} {
		c, _, err := spawn(url, role, "pair", role)
		if err != nil {
			return err
		}
		defer func() { _ = c.End() }()
	}
	conn, err := shard.Dial(ctx, process.Config(url, "pair", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	refs, err := references(conn, entities)
	if err != nil {
		return err
	}
	l, err := limit.NewHand(url)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, size := range payloads {
		if err := remoteRows(ctx, s, refs, l, size); err != nil {
			return err
		}
	}
	if err := tellRows(ctx, s, conn, refs, l); err != nil {
		return err
	}
	if err := heartbeats(ctx, s, url, refs); err != nil {
		return err
	}
	return entityRows(ctx, s, conn, refs)
}

func remoteRows(ctx context.Context, s settings, refs []fixture.AccountRef, l *limit.Hand, size int) error {
	payload, text := make([]byte, size), ", "+strconv.Itoa(size)+" B"
	many := group{
		append([]contestant{{"shardgen", echo(refs, callers, payload)}}, byHand(l, callers, payload)...),
		[]row{
			{title: "remote calls, 256 callers" + text, unit: "/s", figure: perSecond, target: "≥ 3× nats.Request, ≥ 0.75× batched"},
			{title: "its p99" + text, unit: "µs", figure: p99, less: true, target: "≥ 0.67× batched"},
			{title: "the caller's processor time" + text, unit: "ns", figure: cpu, less: true},
		},
	}
	single := group{
		append([]contestant{{"shardgen", echo(refs, 1, payload)}}, byHand(l, 1, payload)...),
		[]row{{title: "remote call, one after another, p50" + text, unit: "µs", figure: p50, less: true, target: "≥ 0.91× nats.Request"}},
	}
	if err := many.print(os.Stdout, s.rounds, s.time); err != nil {
		return err
	}
	return single.print(os.Stdout, s.rounds, s.time)
}

func tellRows(ctx context.Context, s settings, c shard.Caller, refs []fixture.AccountRef, l *limit.Hand) error {
	client := fixture.NewAccountClient(c)
	tells := make([]fixture.AccountTell, 256) // few enough to ask each at the end
	for i := range tells {
		tells[i] = client.Tell(id(i))
	}
	each := limit.TellWindow / runtime.GOMAXPROCS(0) // as many under way as the limit has
	g := group{[]contestant{
		{"shardgen", func(d time.Duration) (measure, error) { return tellAll(ctx, d, each, refs[:len(tells)], tells) }},
		{"batched", tellsByHand(l)},
	}, []row{{title: "remote tells", unit: "/s", figure: perSecond, target: "≥ 0.6× batched"}}}
	return g.print(os.Stdout, s.rounds, s.time)
}

// heartbeats times a member's messages to itself over the control channel, idle and under load.
func heartbeats(ctx context.Context, s settings, url string, refs []fixture.AccountRef) error {
	self := transport.Address{Name: "probe", Incarnation: 1}
	link, err := natstransport.New(url).Open(ctx, transport.Options{Cluster: "probe", Self: self, Lanes: 1})
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()
	beat := func(d time.Duration) (measure, error) {
		return load.Run(1, d, func(int, int) error {
			if err := link.Send(transport.Control, transport.Peer{Address: self}, 0, []byte("beat")); err != nil {
				return err
			}
			_, err := link.Receive(transport.Control)
			time.Sleep(time.Millisecond / 4)
			return err
		})
	}
	loaded := func(d time.Duration) (measure, error) {
		done := make(chan error, 1)
		go func() {
			_, err := echo(refs, callers, make([]byte, 64))(d + d/10)
			done <- err
		}()
		m, err := beat(d)
		if other := <-done; err == nil {
			err = other
		}
		return m, err
	}
	g := group{
		[]contestant{{"under load", loaded}, {"idle", beat}},
		[]row{{title: "heartbeat's echo under 256 callers, p99", unit: "µs", figure: p99, less: true, target: "far below 1 s"}},
	}
	return g.print(os.Stdout, s.rounds, s.time)
}

func entityRows(ctx context.Context, s settings, c shard.Caller, few []fixture.AccountRef) error {
	payload := make([]byte, 64)
	for _, n := range []int{100_000, s.entities} {
		client := fixture.NewAccountClient(c)
		refs := make([]fixture.AccountRef, n)
		for i := range refs {
			refs[i] = client.Ref(id(i))
		}
		begin := time.Now()
		if err := callEach(refs, payload); err != nil {
			return err
		}
		rate := float64(n) / time.Since(begin).Seconds()
		first := group{
			[]contestant{{"shardgen", func(time.Duration) (measure, error) { return measure{PerSecond: rate}, nil }}},
			[]row{{title: fmt.Sprintf("first calls to fresh entities, up to %d", n), unit: "/s", figure: perSecond, target: "≥ 200 k/s"}},
		}
		if err := first.print(os.Stdout, 1, 0); err != nil {
			return err
		}
		g := group{
			[]contestant{{"shardgen", echo(refs, callers, payload)}, {"10,000 entities", echo(few, callers, payload)}},
			[]row{{title: fmt.Sprintf("remote calls to %d entities", n), unit: "/s", figure: perSecond, target: "≥ 0.8×"}},
		}
		if err := g.print(os.Stdout, s.rounds, s.time); err != nil {
			return err
		}
	}
	return nil
}
