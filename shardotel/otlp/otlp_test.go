package otlp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	"github.com/shardgen/shardgen/shardtest"
)

// receive starts the Collector's receiver of OTLP over gRPC, and returns its address and a sink
// with the received traces.
func receive(t *testing.T) (address string, sink *consumertest.TracesSink) {
	t.Helper()
	address, err := natsproc.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	sink = new(consumertest.TracesSink)
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.GRPC.GetOrInsertDefault().NetAddr = confignet.AddrConfig{Transport: confignet.TransportTypeTCP, Endpoint: address}
	r, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, r.Shutdown(t.Context())) })
	return address, sink
}

// TestTracesArrive: even while a node is killed, the receiver gets a span for each call, and each
// turn is in the trace of its call.
func TestTracesArrive(t *testing.T) {
	address, sink := receive(t)
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(address), otlptracegrpc.WithInsecure())
	require.NoError(t, err)
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<16)))
	telemetry := shardotel.New(shardotel.Options{Tracers: tracers, Propagator: propagation.TraceContext{}, Ratio: 1, MaxTraces: 1 << 20})
	cluster := shardtest.New(t, shardtest.Config(func(c *shard.Config) {
		c.Tracing = telemetry
	}), shardtest.Host(func(n *shard.Node) error { return auction.HostWith(n) }))
	users := auction.NewUserClient(cluster.Client())
	const calls, victim = 600, "n2"
	for i := range calls {
		if i == calls/2 {
			cluster.Kill(victim)
		}
		require.NoError(t, users.Ref(fmt.Sprint("user-", i%50), shard.Timeout(time.Minute)).Deposit(t.Context(), 1))
	}
	require.NoError(t, tracers.Shutdown(t.Context()))

	type id struct {
		trace pcommon.TraceID
		span  pcommon.SpanID
	}
	made, turns, parts := map[id]bool{}, []ptrace.Span{}, map[string]int{}
	for _, batch := range sink.AllTraces() {
		for _, r := range batch.ResourceSpans().All() {
			for _, scope := range r.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					if s.Kind() == ptrace.SpanKindInternal {
						parts[s.Name()]++
						continue
					}
					require.Equal(t, "User/Deposit", s.Name())
					require.Less(t, s.StartTimestamp(), s.EndTimestamp())
					if s.Kind() == ptrace.SpanKindServer {
						turns = append(turns, s)
						continue
					}
					require.Equal(t, ptrace.SpanKindClient, s.Kind())
					require.Equal(t, ptrace.StatusCodeUnset, s.Status().Code())
					made[id{s.TraceID(), s.SpanID()}] = true
				}
			}
		}
	}
	require.Len(t, made, calls, "a span for each call of the program")
	called := map[id]bool{}
	for _, s := range turns {
		call := id{s.TraceID(), s.ParentSpanID()}
		require.True(t, made[call], "a turn has no call")
		called[call] = true
	}
	require.Len(t, called, calls, "each call has run")
	require.GreaterOrEqual(t, parts["queue"], len(turns), "each turn has one, also a turn whose commit was lost with its node")
	require.Positive(t, parts["commit"])
	t.Logf("%d calls, %d turns", len(made), len(turns))
}
