// Command example runs one worker of a cluster over a NATS server with JetStream. The cluster's
// membership table is in PostgreSQL. Start several workers, each with its own name:
//
//	go run ./example -db postgres://localhost/shop -nats nats://127.0.0.1:4222 -name a
//
// A worker adds 1 to the counter of the cluster every second, and prints the total and, when they
// change, the rows of the table. Kill a worker with SIGKILL: the others print within seconds that it
// is dead, and go on counting.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store/membertable/postgres"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

const cluster = "example"

func main() {
	db := flag.String("db", "", "`URL` of a PostgreSQL database")
	url := flag.String("nats", "nats://127.0.0.1:4222", "`URL` of a NATS server with JetStream")
	name := flag.String("name", "", "`name` of the worker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *db, *url, *name, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "example: %v\n", err)
		os.Exit(1)
	}
}

// run counts until ctx ends, and then leaves the cluster.
func run(ctx context.Context, db, url, name string, out io.Writer) error {
	pool, err := pgxpool.New(ctx, db)
	if err != nil {
		return err
	}
	defer pool.Close()
	tables := postgres.New(pool)
	if err := tables.Create(ctx); err != nil {
		return err
	}
	s, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster})
	if err != nil {
		return err
	}
	defer s.Close()
	node := shard.New(shard.Config{
		Cluster: cluster, Name: name, Transport: natstransport.New(url), Store: s,
		Membership: membership.Options{Table: membership.TableOptions{Store: tables}},
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer func() { _ = node.Close() }()
	if err := counter.HostCounter(node, func() *counter.Counter { return &counter.Counter{} }); err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	if err := count(ctx, node, pool, out); err != nil {
		return err
	}
	leave, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer stop()
	return node.Shutdown(leave)
}

// count adds 1 to the counter every second and prints the members, until ctx or the node ends.
func count(ctx context.Context, node *shard.Node, pool *pgxpool.Pool, out io.Writer) error {
	all := counter.NewCounterClient(node).Ref("all")
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for last := ""; ; {
		total, err := all.Add(ctx, 1)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "add: %v\n", err)
		}
		now, err := members(ctx, pool)
		if err == nil && now != last {
			fmt.Fprintf(out, "members: %s\n", now)
			last = now
		}
		fmt.Fprintf(out, "total: %d\n", total)
		select {
		case <-ctx.Done():
			return nil
		case <-node.Done():
			return node.Err()
		case <-again.C:
		}
	}
}

// members returns the rows of the cluster's table, as any SQL client can read them.
func members(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	rows, err := pool.Query(ctx, "SELECT name || ' ' || status FROM shardgen_member WHERE cluster = $1 ORDER BY name, started", cluster)
	if err != nil {
		return "", err
	}
	var list []string
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return "", err
		}
		list = append(list, row)
	}
	return strings.Join(list, ", "), rows.Err()
}
