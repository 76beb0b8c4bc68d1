package main

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/metric"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

type cluster struct {
	telemetry *shardotel.Telemetry
	meters    metric.MeterProvider
	conn      *shard.Conn
	nodes     []*shard.Node
	ends      []func() // end what was started, in the order of the starts
}

func (c *cluster) close() {
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i]()
	}
}

// start starts the client or, with -name, a node. Without -nats it first starts a server and three
// nodes.
func (c *cluster) start(ctx context.Context, o options) error {
	url, nodes := o.nats, []string{"n1", "n2", "n3"}
	switch {
	case url == "":
		dir, err := os.MkdirTemp("", "metrics-")
		if err != nil {
			return err
		}
		c.ends = append(c.ends, func() { _ = os.RemoveAll(dir) })
		server, err := embedded.Start(embedded.Options{StoreDir: dir})
		if err != nil {
			return err
		}
		c.ends = append(c.ends, server.Shutdown)
		url = server.ClientURL()
	case o.name != "":
		nodes = []string{o.name}
	default:
		nodes = nil
	}
	config := shard.Config{
		Cluster: "metrics", Transport: natstransport.New(url),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if len(nodes) > 0 {
		store, err := natsstore.Open(ctx, url, natsstore.Config{})
		if err != nil {
			return err
		}
		c.ends = append(c.ends, store.Close)
		for _, name := range nodes {
			node := config
			node.Name, node.Store = name, store
			if err := c.node(ctx, node); err != nil {
				return err
			}
		}
	}
	if o.name != "" {
		return nil
	}
	config.Name = "client"
	conn, err := shard.Dial(ctx, config)
	if err != nil {
		return err
	}
	c.conn = conn
	c.telemetry.Count(conn)
	c.ends = append(c.ends, func() { _ = conn.Close() })
	return nil
}

// node starts a node that hosts auctions and users. The metrics count the calls of each node, and
// show the state of the first node alone, because a program usually has one node.
func (c *cluster) node(ctx context.Context, config shard.Config) error {
	n := shard.New(config)
	c.nodes = append(c.nodes, n)
	c.ends = append(c.ends, func() { _ = n.Close() })
	if err := auction.HostWith(n); err != nil {
		return err
	}
	if len(c.nodes) > 1 {
		c.telemetry.Count(n)
		return n.Start(ctx)
	}
	stop, err := c.telemetry.Observe(n, c.meters)
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() { _ = stop() })
	return n.Start(ctx)
}
