package shardotel_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	"github.com/shardgen/shardgen/shardtest"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// A scene is a cluster whose telemetry is kept in memory.
type scene struct {
	*shardtest.Cluster
	t         *testing.T
	telemetry *shardotel.Telemetry
	gate      gate
	spans     *tracetest.SpanRecorder
	reader    *sdkmetric.ManualReader
	meters    *sdkmetric.MeterProvider
}

// A gate is a Telemetry that keeps the next traces from beginning.
type gate struct {
	*shardotel.Telemetry
	shut atomic.Int32 // how many traces
}

func (g *gate) Begin(now time.Time) bool { return g.shut.Add(-1) < 0 && g.Telemetry.Begin(now) }

// latency is the latency of the cluster's network, and appending is that of its store.
const (
	latency   = time.Millisecond
	appending = 5 * time.Millisecond
)

// perform runs a test of a cluster of three nodes that hosts the auction, in virtual time.
func perform(t *testing.T, test func(s *scene)) {
	t.Helper()
	performWith(t, test, func(n *shard.Node) error { return auction.HostWith(n) })
}

// performWith is like perform, but its nodes host other types.
func performWith(t *testing.T, test func(s *scene), host func(n *shard.Node) error) {
	t.Helper()
	s := &scene{t: t, spans: tracetest.NewSpanRecorder()}
	telemetry := shardotel.New(shardotel.Options{
		Tracers:    sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans)),
		Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		Ratio:      1, MaxTraces: 1 << 20,
	})
	s.gate.Telemetry = telemetry
	s.telemetry, s.reader = telemetry, sdkmetric.NewManualReader(sdkmetric.WithProducer(telemetry))
	s.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		s.t, s.Cluster = t, c
		c.Store().Fault(func(op memorystore.Op) (f memorystore.Fault) {
			if op.Name == "append" {
				f.Delay = appending
			}
			return f
		})
		test(s)
	}, shardtest.Latency(latency, latency), shardtest.Config(func(c *shard.Config) {
		c.Tracing = &s.gate
	}), shardtest.Host(host))
}

// ended returns the ended span with the given name and kind.
func (s *scene) ended(name string, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	s.t.Helper()
	for _, span := range s.spans.Ended() {
		if span.Name() == name && span.SpanKind() == kind {
			return span
		}
	}
	s.t.Fatalf("no span %s of kind %v among %d", name, kind, len(s.spans.Ended()))
	return nil
}

// metrics collects all metrics, by name.
func (s *scene) metrics() map[string]metricdata.Metrics {
	s.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(s.t, s.reader.Collect(s.t.Context(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// TestMetricsOfCalls: calls are counted by method and outcome, at callers and hosts, and labels do
// not name entities.
func TestMetricsOfCalls(t *testing.T) {
	perform(t, func(s *scene) {
		ctx := s.t.Context()
		stop := s.telemetry.Count(s.Client())
		for _, name := range s.Running() {
			s.telemetry.Count(s.Node(name))
		}
		for i := range 20 {
			require.NoError(s.t, auction.NewUserClient(s.Client()).Ref(fmt.Sprint("user-", i)).Deposit(ctx, 100))
		}
		err := auction.NewUserClient(s.Client()).Ref("user-0").Bid(ctx, "lot", 1000)
		require.Error(s.t, err, "it has too little")
		stop() // the counts stay
		stop()
		metrics := s.metrics()
		for _, name := range []string{"rpc.client.call.duration", "rpc.server.call.duration"} {
			points := metrics[name].Data.(metricdata.Histogram[float64]).DataPoints
			require.Len(s.t, points, 3, name)
			for _, p := range points {
				method, _ := p.Attributes.Value("rpc.method")
				outcome, _ := p.Attributes.Value("rpc.response.status_code")
				problem, failed := p.Attributes.Value("error.type")
				require.Equal(s.t, name == "rpc.client.call.duration", outcome.AsString() == "executed", name)
				switch method.AsString() {
				case "User/Deposit":
					require.EqualValues(s.t, 20, p.Count, name)
					require.False(s.t, failed)
				case "Auction/Highest":
					require.EqualValues(s.t, 1, p.Count, name)
					require.False(s.t, failed)
				case "User/Bid":
					require.EqualValues(s.t, 1, p.Count, name)
					require.Equal(s.t, "entity", problem.AsString(), name)
				default:
					s.t.Errorf("%s has a point of %s", name, method.AsString())
				}
				for _, label := range p.Attributes.ToSlice() {
					require.NotContains(s.t, label.Value.String(), "user-", "%s is labelled with an entity", name)
				}
			}
		}
	})
}

// TestObserve: the state of a node and of a connection is collected until stop.
func TestObserve(t *testing.T) {
	perform(t, func(s *scene) {
		for i := range 30 {
			require.NoError(s.t, auction.NewUserClient(s.Client()).Ref(fmt.Sprint(i)).Deposit(s.t.Context(), 1))
		}
		stop, err := s.telemetry.Observe(s.Node("n1"), s.meters)
		require.NoError(s.t, err)
		metrics := s.metrics()
		gauge := func(name string) (sum int64) {
			for _, p := range metrics[name].Data.(metricdata.Gauge[int64]).DataPoints {
				sum += p.Value
			}
			return sum
		}
		held, states := int64(0), s.Node("n1").LocalShards("User")
		for _, state := range states {
			held += int64(state.Entities)
		}
		require.Positive(s.t, held)
		require.Equal(s.t, held, gauge("shardgen.entities"))
		require.EqualValues(s.t, 1, gauge("shardgen.process.live"))
		require.EqualValues(s.t, 1, gauge("shardgen.process.ready"))
		require.EqualValues(s.t, 3, gauge("shardgen.members"))
		require.Zero(s.t, gauge("shardgen.members.unreachable"))
		require.EqualValues(s.t, len(s.Node("n1").LocalShards("")), gauge("shardgen.shards"))
		require.NotEmpty(s.t, metrics["shardgen.events"].Data.(metricdata.Sum[int64]).DataPoints)

		s.Isolate("n3")
		s.Until("n3 is missed", func() bool {
			return slices.ContainsFunc(s.Node("n1").Cluster().Members, func(m shard.Member) bool { return !m.Reachable })
		})
		metrics = s.metrics()
		require.EqualValues(s.t, 1, gauge("shardgen.members.unreachable"))
		s.Mend()
		require.NoError(s.t, stop())
		require.NotContains(s.t, s.metrics(), "shardgen.members")

		stop, err = s.telemetry.Observe(s.Client(), s.meters)
		require.NoError(s.t, err)
		require.NotContains(s.t, s.metrics(), "shardgen.members")
		require.NoError(s.t, stop())
	})
}
