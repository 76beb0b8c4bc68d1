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
// with metrics that a reader collects, and with a span for each end of each call, of which nothing is
// exported.
func BenchmarkLocalRead(b *testing.B) {
	for _, with := range []string{"off", "metrics", "spans"} {
		b.Run(with, func(b *testing.B) {
			config := shard.Config{
				Cluster: "bench", Name: "n", Transport: memory.NewBroker(memory.Options{}).Transport(), Store: memorystore.New().Client(),
				Logger: slog.New(slog.DiscardHandler),
			}
			telemetry := shardotel.New(shardotel.Options{Tracers: sdktrace.NewTracerProvider(), Propagator: propagation.TraceContext{}})
			var opts []shard.HostOption
			if with == "spans" {
				config.Interceptors = []shard.Interceptor{telemetry.Caller()}
				opts = append(opts, shard.Intercept(telemetry.Host()))
			}
			node := shard.New(config)
			require.NoError(b, auction.HostUser(node, func() *auction.User { return &auction.User{} }, opts...))
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
