package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// callTimeout bounds a call, including the time to find the cluster.
const callTimeout = 5 * time.Second

func runCall(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("call", stderr)
	var to connection
	to.flags(flags)
	name := flags.String("name", "", "`name` of the client, as the NATS user's permissions have it (default <hostname>-<pid>)")
	cluster := flags.String("cluster", defaultCluster, "`name` of the cluster")
	if err := parse(flags, args, 2, 3); err != nil {
		return err
	}
	call, err := parseCall(flags.Args()[1:])
	if err != nil {
		return err
	}
	options, err := to.options()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shard.Config{
		Cluster:   *cluster,
		Name:      *name,
		Transport: natstransport.New(to.url, natstransport.ConnectOptions(options...)),
		Logger:    slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	total, err := call(ctx, counter.NewCounterClient(conn).Ref(flags.Arg(0)))
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, total)
	return nil
}

func parseCall(args []string) (func(context.Context, counter.CounterAPI) (int64, error), error) {
	switch {
	case args[0] == "get" && len(args) == 1:
		return func(ctx context.Context, c counter.CounterAPI) (int64, error) { return c.Get(ctx) }, nil
	case args[0] == "add" && len(args) == 2:
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return nil, usageError(fmt.Sprintf("add %s: not a whole number of 64 bits", args[1]))
		}
		return func(ctx context.Context, c counter.CounterAPI) (int64, error) { return c.Add(ctx, n) }, nil
	}
	return nil, usageError(fmt.Sprintf("unknown call %q (want add N, or get)", args))
}
