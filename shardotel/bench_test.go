package shardotel_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// BenchmarkLocalRead is a call within one process of a method that only reads: without telemetry,
// with metrics alone, and with a span for each end of each call, of which nothing is exported.
func BenchmarkLocalRead(b *testing.B) {
	for name, tracers := range map[string]*sdktrace.TracerProvider{
		"off": nil, "metrics": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())), "spans": sdktrace.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			config := shard.Config{
				Cluster: "bench", Name: "n", Transport: memory.NewBroker(memory.Options{}).Transport(), Store: memorystore.New().Client(),
				Logger: slog.New(slog.DiscardHandler),
			}
			var opts []shard.HostOption
			if tracers != nil {
				telemetry, err := shardotel.New(shardotel.Options{
					Tracers: tracers, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), Propagator: propagation.TraceContext{},
				})
				require.NoError(b, err)
				config.Interceptors = []shard.Interceptor{telemetry.Caller()}
				opts = append(opts, shard.Intercept(telemetry.Host()))
			}
			node := shard.New(config)
			require.NoError(b, auction.HostUser(node, func() *auction.User { return &auction.User{} }, opts...))
			require.NoError(b, node.Start(b.Context()))
			defer func() { _ = node.Close() }()
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
