package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// leaveTimeout bounds how long a worker gives its counters away.
const leaveTimeout = 30 * time.Second

// runWorker hosts counters until ctx ends, then leaves in order.
func runWorker(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := newFlags("worker", stderr)
	url := flags.String("nats", defaultURL, "`URL` of the NATS server")
	cluster := flags.String("cluster", defaultCluster, "`name` of the cluster")
	name := flags.String("name", "", "`name` of the worker, unique in its cluster (default <hostname>-<pid>)")
	verbose := flags.Bool("v", false, "log more than warnings")
	parent := flags.Bool("parent", false, "end at once when standard input closes, so as not to outlive the process that started this one")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orphaned := make(chan struct{})
	if *parent {
		go func() { // ends with the process: a read cannot be taken back
			_, _ = io.Copy(io.Discard, stdin)
			close(orphaned)
			cancel()
		}()
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelInfo
	}
	s, err := natsstore.Open(ctx, *url, natsstore.Config{Name: *cluster})
	if err != nil {
		return err
	}
	defer s.Close()
	node := shard.New(shard.Config{
		Cluster:   *cluster,
		Name:      *name,
		Transport: natstransport.New(*url),
		Store:     s,
		Logger:    slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	})
	defer func() { _ = node.Close() }()
	if err := counter.HostCounter(node, func() *counter.Counter { return &counter.Counter{} }); err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is up\n", node.Name())
	select {
	case <-ctx.Done():
	case <-node.Done():
		return node.Err()
	}
	select {
	case <-orphaned:
		return fmt.Errorf("%s: the process that started it is gone", node.Name())
	default:
	}
	leave, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer stop()
	if err := node.Shutdown(leave); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has left\n", node.Name())
	return nil
}
