// Command metrics runs three nodes and a client in one process, with auctions at which the client
// bids, and serves their metrics for Prometheus at /metrics.
//
//	metrics [-listen 127.0.0.1:9464] [-rate 200] [-for 1m] [-kill 30s]
//
// After the time it prints how many calls the client made, to compare them with what Prometheus
// has, and exits with 1 if one of them failed:
//
//	calls=12000 failed=0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/shardgen/shardgen/examples/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	natsstore "github.com/shardgen/shardgen/store/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{}
	flag.StringVar(&o.listen, "listen", "127.0.0.1:9464", "`address` on which metrics are served")
	flag.IntVar(&o.rate, "rate", 200, "`calls` a second")
	flag.DurationVar(&o.lasts, "for", time.Minute, "how `long` the client calls")
	flag.DurationVar(&o.kill, "kill", 0, "end a node without a word after this `time` (default: never)")
	flag.Parse()
	if o.rate < 1 || o.lasts <= 0 {
		fmt.Fprintln(os.Stderr, "metrics: want at least one call a second, and some time")
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

// options are those of the command.
type options struct {
	listen string
	rate   int
	lasts  time.Duration
	kill   time.Duration
}

func run(ctx context.Context, o options, out io.Writer) error {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return err
	}
	telemetry, err := shardotel.New(shardotel.Options{
		Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)), Propagator: propagation.TraceContext{},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Second}).Serve(listener) }()

	c := cluster{telemetry: telemetry}
	defer c.close()
	if err := c.start(ctx); err != nil {
		return err
	}
	if o.kill > 0 {
		defer time.AfterFunc(o.kill, func() { _ = c.nodes[2].Close() }).Stop()
	}
	calls, failed := bid(ctx, auction.NewAuctionClient(c.conn), auction.NewUserClient(c.conn), o)
	_, err = fmt.Fprintf(out, "calls=%d failed=%d\n", calls, failed)
	if err == nil && failed > 0 {
		err = errors.New("a call has failed")
	}
	return err
}

// cluster is three nodes, a client, and the broker.
type cluster struct {
	telemetry *shardotel.Telemetry
	conn      *shard.Conn
	nodes     []*shard.Node
	ends      []func() // in the order in which they were begun
}

func (c *cluster) close() {
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i]()
	}
}

func (c *cluster) start(ctx context.Context) error {
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
	store, err := natsstore.Open(ctx, server.ClientURL(), natsstore.Config{})
	if err != nil {
		return err
	}
	c.ends = append(c.ends, store.Close)
	config := func(name string) shard.Config {
		return shard.Config{
			Cluster: "metrics", Name: name, Transport: server.Transport(), Store: store,
			Interceptors: []shard.Interceptor{c.telemetry.Caller()},
			Logger:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		if err := c.node(ctx, config(name)); err != nil {
			return err
		}
	}
	client := config("client")
	client.Store = nil // a client has none
	c.conn, err = shard.Dial(ctx, client)
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() { _ = c.conn.Close() })
	return nil
}

// node starts a node that hosts auctions and users. The first one's state is observed: a program
// has one node, as a rule.
func (c *cluster) node(ctx context.Context, config shard.Config) error {
	n := shard.New(config)
	c.nodes = append(c.nodes, n)
	c.ends = append(c.ends, func() { _ = n.Close() })
	if err := auction.HostWith(n, shard.Intercept(c.telemetry.Host())); err != nil {
		return err
	}
	if config.Name == "n1" {
		stop, err := c.telemetry.Observe(n)
		if err != nil {
			return err
		}
		c.ends = append(c.ends, func() { _ = stop() })
	}
	return n.Start(ctx)
}

// bid lets users bid at auctions, one call after another at the rate.
func bid(ctx context.Context, auctions *auction.AuctionClient, users *auction.UserClient, o options) (calls, failed int) {
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	ticks := time.NewTicker(time.Second / time.Duration(o.rate))
	defer ticks.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return calls, failed
		case <-ticks.C:
		}
		user, err := fmt.Sprint("user-", i%20), error(nil)
		call := context.WithoutCancel(ctx) // so that the last one is not given up
		if i%2 == 0 {
			err = users.Ref(user).Deposit(call, 10)
		} else {
			_, _, err = auctions.Ref(fmt.Sprint("lot-", i%7)).Highest(call)
		}
		if calls++; err != nil {
			failed++
		}
	}
}
