package shardotel_test

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// BenchmarkLocalRead measures a call within one process of a method that only reads: without
// telemetry, with collected metrics, and with traces of some calls, which are not exported.
func BenchmarkLocalRead(b *testing.B) {
	ratios := map[string]float64{"traced 0": 0, "traced 0.0001": 0.0001, "traced 0.01": 0.01, "traced 1": 1}
	for _, with := range append([]string{"off", "metrics"}, slices.Sorted(maps.Keys(ratios))...) {
		b.Run(with, func(b *testing.B) {
			config := shard.Config{
				Cluster: "bench", Name: "n", Transport: memory.NewBroker(memory.Options{}).Transport(), Store: memorystore.New().Client(),
				Logger: slog.New(slog.DiscardHandler),
			}
			ratio, traced := ratios[with]
			telemetry := shardotel.New(shardotel.Options{
				Tracers: sdktrace.NewTracerProvider(), Propagator: propagation.TraceContext{}, Ratio: ratio, MaxTraces: math.MaxInt,
			})
			if traced {
				config.Tracing = telemetry
			}
			node := shard.New(config)
			require.NoError(b, auction.HostUser(node, func() *auction.User { return &auction.User{} }))
			require.NoError(b, node.Start(b.Context()))
			defer func() { _ = node.Close() }()
			if with == "metrics" {
				reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(telemetry))
				stop, err := telemetry.Observe(node, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
				require.NoError(b, err)
				defer func() { require.NoError(b, stop()) }()
			}
			ann := auction.NewUserClient(node).Ref("ann")
			require.NoError(b, ann.Deposit(b.Context(), 1))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ann.Free(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBelow measures a call to another process below a span that is not sampled, without and
// with traces.
func BenchmarkBelow(b *testing.B) {
	for _, with := range []string{"off", "traced 0"} {
		b.Run(with, func(b *testing.B) {
			var tracing shard.Tracing
			if with != "off" {
				tracing, _ = recording(0, 0)
			}
			_, conn := account(b, network(), tracing)
			ctx, _ := below(b.Context(), false)
			ref := fixture.NewAccountClient(conn).Ref("ann")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ref.Add(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
