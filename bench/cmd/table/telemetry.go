package main

import (
	"context"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
)

// A telemetryCase says how much a node of the section reports. The zero value reports nothing.
type telemetryCase struct {
	name     string
	observed bool             // the node's state, by shardotel's Observe
	calls    bool             // calls and turns, by its interceptors
	sampler  sdktrace.Sampler // of their spans, none of which is exported
}

// telemetry compares local calls at nodes with and without OpenTelemetry.
func telemetry(ctx context.Context, s settings, url string) error {
	var runs []contestant
	for _, c := range []telemetryCase{
		{name: "shardgen"},
		{name: "state observed", observed: true},
		{name: "metrics of calls", observed: true, calls: true, sampler: sdktrace.NeverSample()},
		{name: "one call of 100 traced", observed: true, calls: true, sampler: sdktrace.TraceIDRatioBased(0.01)},
		{name: "every call traced", observed: true, calls: true, sampler: sdktrace.AlwaysSample()},
	} {
		run, end, err := c.start(ctx, url)
		defer end()
		if err != nil {
			return err
		}
		runs = append(runs, contestant{c.name, run})
	}
	return group{runs, []row{
		{title: "local call, telemetry off", unit: "ns", figure: nanos, less: true},
		{title: "its processor time", unit: "ns", figure: cpu, less: true},
	}}.print(os.Stdout, s.rounds, s.time)
}

// start starts the node of a case, and returns its contestant's run, and end, which closes the node.
// The providers end with the process.
func (c telemetryCase) start(ctx context.Context, url string) (run func(time.Duration) (measure, error), end func(), err error) {
	end = func() {}
	cfg := process.Config(url, strings.ReplaceAll(c.name, " ", "-"), "node")
	var opts []shard.HostOption
	t, err := shardotel.New(shardotel.Options{
		Tracers: sdktrace.NewTracerProvider(sdktrace.WithSampler(c.sampler)), Propagator: propagation.TraceContext{},
		Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(nowhere{}, sdkmetric.WithInterval(time.Second)))),
	})
	if err != nil {
		return nil, end, err
	}
	if c.calls {
		cfg.Interceptors = []shard.Interceptor{t.Caller()}
		opts = append(opts, shard.Intercept(t.Host()))
	}
	node, err := process.Member(ctx, cfg, opts...)
	if err != nil {
		return nil, end, err
	}
	end = func() { _ = node.Close() }
	if c.observed {
		if _, err := t.Observe(node); err != nil {
			return nil, end, err
		}
	}
	ref := fixture.NewAccountClient(node).Ref(id(0))
	return func(d time.Duration) (measure, error) {
		return load.Bulk(1, d, func(int, int) error {
			_, err := ref.Add(ctx, 1)
			return err
		})
	}, end, nil
}

// nowhere drops the metrics that it is given each second.
type nowhere struct{}

func (nowhere) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (nowhere) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (nowhere) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }
func (nowhere) ForceFlush(context.Context) error                          { return nil }
func (nowhere) Shutdown(context.Context) error                            { return nil }
