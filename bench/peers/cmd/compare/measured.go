package main

import (
	"context"
	"io"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/bench/process"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
)

// measured adds metrics of calls to a configuration. The node's state is observed when it has started.
func measured(cfg shard.Config) (shard.Config, *shardotel.Telemetry, error) {
	t, err := shardotel.New(shardotel.Options{
		Tracers: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		Meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	})
	if err != nil {
		return cfg, nil, err
	}
	cfg.Interceptors = []shard.Interceptor{t.Caller()}
	return cfg, t, nil
}

// startMeasured starts a member with metrics.
func startMeasured(ctx context.Context, cfg shard.Config) (*shard.Node, error) {
	cfg, t, err := measured(cfg)
	if err != nil {
		return nil, err
	}
	node, err := process.Member(ctx, cfg, shard.Intercept(t.Host()))
	if err != nil {
		return nil, err
	}
	_, err = t.Observe(node)
	return node, err
}

func localMeasured(ctx context.Context, s setup, n int) (entities, error) {
	node, err := startMeasured(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, node, n, node)
}

func hostMeasured(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := startMeasured(ctx, process.Config(s.url, s.cluster, "host"))
	return s.cluster, node, err
}

func dialMeasured(ctx context.Context, s setup, n int) (entities, error) {
	cfg, _, err := measured(process.Config(s.url, s.address, "caller"))
	if err != nil {
		return nil, err
	}
	return dialWith(ctx, cfg, n)
}
