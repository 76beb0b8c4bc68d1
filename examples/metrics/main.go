// Command metrics runs a client that bids at auctions, and serves metrics for Prometheus at
// /metrics. Without -nats it runs three nodes, the client and NATS in one process:
//
//	metrics [-listen 127.0.0.1:9464] [-rate 200] [-for 1m] [-kill 30s]
//
// With the URL of a NATS server it is one process of a cluster: a node if it has a name, otherwise
// the client.
//
//	metrics -nats nats://127.0.0.1:4222 -name n1 -listen 127.0.0.1:9464
//	metrics -nats nats://127.0.0.1:4222 -listen 127.0.0.1:9467 [-rate 200] [-for 1m] [-timeout 1s] [-calls n]
//
// With -calls it makes that many calls as fast as 256 callers can, instead of calls at a rate for a
// time. After its calls the client prints how many calls of each method it made, how they ended and
// how long they took, for comparison with Prometheus. It then serves metrics until its standard
// input is closed.
//
//	{"calls":12000,"failed":0,"methods":{…}}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/shardotel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{}
	flag.StringVar(&o.listen, "listen", "127.0.0.1:9464", "`address` on which metrics are served")
	flag.IntVar(&o.rate, "rate", 200, "`calls` a second")
	flag.DurationVar(&o.lasts, "for", time.Minute, "how `long` the client calls")
	flag.IntVar(&o.calls, "calls", 0, "make this `many` calls as fast as possible, instead of -rate and -for")
	flag.DurationVar(&o.kill, "kill", 0, "end a node without a word after this `time` (default: never)")
	flag.DurationVar(&o.timeout, "timeout", 0, "how `long` a call may take (default: 5s)")
	flag.StringVar(&o.nats, "nats", "", "`URL` of the NATS server (default: one of its own, and three nodes)")
	flag.StringVar(&o.name, "name", "", "with -nats: run the node of that `name` (default: the client)")
	flag.Parse()
	if o.rate < 1 || o.lasts <= 0 {
		fmt.Fprintln(os.Stderr, "metrics: want at least one call a second, and some time")
		os.Exit(2)
	}
	if o.nats != "" {
		o.input = os.Stdin
	}
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

type options struct {
	listen string
	rate   int
	calls  int // 0 means at the rate
	lasts  time.Duration
	kill   time.Duration
	nats   string
	name   string
	// timeout bounds each call; 0 means Config.CallTimeout.
	timeout time.Duration
	input   io.Reader // the client serves until it ends; nil means it does not wait
}

func run(ctx context.Context, o options, out io.Writer) error {
	registry := prometheus.NewRegistry()
	telemetry := shardotel.New(shardotel.Options{})
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithProducer(telemetry))
	if err != nil {
		return err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Second}).Serve(listener) }()

	c := cluster{telemetry: telemetry, meters: meters}
	defer c.close()
	if err := c.start(ctx, o); err != nil {
		return err
	}
	if o.name != "" {
		<-ctx.Done()
		return nil
	}
	if o.kill > 0 {
		if len(c.nodes) == 0 {
			return errors.New("-kill needs a node in this process, and -nats starts none (omit -nats)")
		}
		last := c.nodes[len(c.nodes)-1]
		defer time.AfterFunc(o.kill, func() { _ = last.Close() }).Stop()
	}
	t := bid(ctx, auction.NewAuctionClient(c.conn), auction.NewUserClient(c.conn), o)
	if err := json.NewEncoder(out).Encode(t); err != nil {
		return err
	}
	if o.input != nil {
		_, _ = io.Copy(io.Discard, o.input)
	} else if t.Failed > 0 {
		return errors.New("a call has failed")
	}
	return nil
}
