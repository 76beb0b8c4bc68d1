package shardotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// account starts a node that hosts accounts, and a client.
func account(t testing.TB, over transport.Transport, tracing shard.Tracing, opts ...shard.HostOption) (node *shard.Node, conn *shard.Conn) {
	t.Helper()
	config := shard.Config{Cluster: "traces", Name: "node", Transport: over, Tracing: tracing, Logger: slog.New(slog.DiscardHandler)}
	node = shard.New(config)
	require.NoError(t, fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, opts...))
	require.NoError(t, node.Start(t.Context()))
	t.Cleanup(func() { _ = node.Close() })
	config.Name = "client"
	conn, err := shard.Dial(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return node, conn
}

func network() transport.Transport { return memory.NewBroker(memory.Options{}).Transport() }

// recording returns a Telemetry that traces a part of the calls, and the recorder of its spans.
func recording(ratio float64, most int) (*shardotel.Telemetry, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return shardotel.New(shardotel.Options{
		Tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), Propagator: propagation.TraceContext{}, Ratio: ratio, MaxTraces: most,
	}), spans
}

// below returns ctx with a parent whose trace is sampled or not.
func below(ctx context.Context, sampled bool) (context.Context, trace.SpanContext) {
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.TraceFlags(0).WithSampled(sampled)})
	return trace.ContextWithSpanContext(ctx, c), c
}

// TestLocalCall: a call within a process has a span at the caller and one for the turn, below the
// span of its context. The traced call is not encoded.
func TestLocalCall(t *testing.T) {
	telemetry, spans := recording(0, 0)
	node, _ := account(t, network(), telemetry)
	ref := fixture.NewAccountClient(node).Ref("ann")
	ctx, parent := below(t.Context(), true)
	_, err := ref.Add(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, spans.Ended(), "the ratio is 0")
	before := node.Counters()["frames sent"]
	_, err = ref.Add(ctx, 1)
	require.NoError(t, err)
	all := spans.Ended()
	require.Len(t, all, 2)
	turn, call := all[0], all[1]
	require.Equal(t, trace.SpanKindServer, turn.SpanKind())
	require.Equal(t, trace.SpanKindClient, call.SpanKind())
	require.Equal(t, parent.SpanID(), call.Parent().SpanID())
	require.Equal(t, call.SpanContext().SpanID(), turn.Parent().SpanID())
	require.Equal(t, parent.TraceID(), turn.SpanContext().TraceID())
	require.Contains(t, call.Attributes(), attribute.String("rpc.response.status_code", "executed"))
	require.Equal(t, before, node.Counters()["frames sent"])
}

// TestErrorsAreInSpans: an entity's error is the status of both spans. The error of a call that
// could not begin is a status, too.
func TestErrorsAreInSpans(t *testing.T) {
	perform(t, func(s *scene) {
		ctx := s.t.Context()
		users := auction.NewUserClient(s.Client())
		s.place2(users)
		for _, from := range []shard.Caller{s.Client(), s.Node("n1")} {
			s.spans.Reset()
			require.Error(s.t, auction.NewUserClient(from).Ref("ann").Bid(ctx, "vase", 1000))
			call := s.ended("User/Bid", trace.SpanKindClient)
			turn := s.within(call, "User/Bid", trace.SpanKindServer)
			for _, span := range []sdktrace.ReadOnlySpan{call, turn} {
				require.Equal(s.t, codes.Error, span.Status().Code)
				require.Contains(s.t, span.Attributes(), attribute.String("error.type", "entity"))
			}
		}
		s.spans.Reset()
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err := users.Ref("ann").Free(over)
		require.ErrorIs(s.t, err, context.Canceled)
		call := s.ended("User/Free", trace.SpanKindClient)
		require.Equal(s.t, codes.Error, call.Status().Code)
		require.Contains(s.t, call.Attributes(), attribute.String("rpc.response.status_code", "not executed"))
		require.Len(s.t, s.spans.Ended(), 1)
	})
}

// place2 moves user ann, with money, to n1.
func (s *scene) place2(users *auction.UserClient) {
	s.t.Helper()
	require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 100))
	s.Move("User", "ann", "n1")
	_, err := users.Ref("ann").Free(s.t.Context())
	require.NoError(s.t, err)
}

// TestRetriesAreEvents: a call whose home is killed is sent again, which is an event of its span.
func TestRetriesAreEvents(t *testing.T) {
	perform(t, func(s *scene) {
		users := auction.NewUserClient(s.Client())
		s.place2(users)
		s.spans.Reset()
		done := make(chan error, 1)
		go func() { done <- users.Ref("ann").Deposit(s.t.Context(), 1) }()
		s.Advance(latency + appending/2)
		s.Kill("n1")
		require.NoError(s.t, <-done)
		call := s.ended("User/Deposit", trace.SpanKindClient)
		require.NotEmpty(s.t, call.Events())
		require.Equal(s.t, "retry", call.Events()[0].Name)
		require.Equal(s.t, codes.Unset, call.Status().Code)
	})
}

// TestUnsampledParent: calls below a parent that is not sampled are not traced, at any ratio, in
// the process or to another. Methods see the parent.
func TestUnsampledParent(t *testing.T) {
	telemetry, spans := recording(1, math.MaxInt)
	var mu sync.Mutex
	var seen trace.SpanContext
	node, conn := account(t, network(), telemetry,
		shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
			mu.Lock()
			defer mu.Unlock()
			seen = trace.SpanContextFromContext(ctx)
			return next(ctx)
		}))
	ctx, parent := below(t.Context(), false)
	for _, caller := range []shard.Caller{node, conn} {
		seen = trace.SpanContext{}
		_, err := fixture.NewAccountClient(caller).Ref("ann").Add(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, parent.TraceID(), seen.TraceID())
		require.Equal(t, parent.SpanID(), seen.SpanID())
		require.False(t, seen.IsSampled())
	}
	require.Empty(t, spans.Started())
	_, err := fixture.NewAccountClient(conn).Ref("ann").Add(t.Context(), 1)
	require.NoError(t, err)
	require.NotEmpty(t, spans.Started())
}

// TestTurnsFollowTheirCalls: if a call is not traced, calls made by its turn are not traced either,
// with the turn's context or a derived one.
func TestTurnsFollowTheirCalls(t *testing.T) {
	test := func(s *scene) {
		ctx := s.t.Context()
		require.NoError(s.t, auction.NewUserClient(s.Client()).Ref("ann").Deposit(ctx, 100))
		s.place()
		for i, from := range []shard.Caller{s.Client(), s.Node("n1")} {
			s.spans.Reset()
			s.gate.shut.Store(1)
			require.NoError(s.t, auction.NewUserClient(from).Ref("ann").Bid(ctx, "vase", 60+int64(i)))
			require.Less(s.t, s.gate.shut.Load(), int32(1), "the call itself asked")
			s.Settle()
			require.Empty(s.t, s.spans.Started())
		}
	}
	perform(t, test)
	performWith(t, test, func(n *shard.Node) error {
		return auction.HostWith(n, shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
			type key struct{}
			return next(context.WithValue(ctx, key{}, 1))
		}))
	})
}

// TestRefusedTrace: after Begin has refused a trace, it is not asked again for a millisecond.
func TestRefusedTrace(t *testing.T) {
	performWith(t, func(s *scene) {
		once := 0
		for _, name := range []string{"n1", "n2", "n3"} { // for one of them the calls are local and take no time
			ann := fixture.NewAccountClient(s.Node(name)).Ref("ann")
			s.gate.shut.Store(1)
			for range 2 {
				_, err := ann.Add(s.t.Context(), 1)
				require.NoError(s.t, err)
			}
			if s.gate.shut.Load() == 0 {
				once++
			}
		}
		require.Equal(s.t, 1, once)
	}, func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
	})
}

// TestRemindersAreLinked: the turn of a reminder is linked with the span of the call that set the
// reminder.
func TestRemindersAreLinked(t *testing.T) {
	perform(t, func(s *scene) {
		ctx := s.t.Context()
		require.NoError(s.t, auction.NewAuctionClient(s.Client()).Ref("vase").Open(ctx, "bob", time.Now().Add(time.Minute)))
		set := s.within(s.ended("Auction/Open", trace.SpanKindServer), "Auction/Close", trace.SpanKindProducer)
		s.Advance(2 * time.Minute)
		s.within(s.follows(set), "commit", trace.SpanKindInternal)
	})
}

// TestRatio: about the given part of the calls without a parent is traced, up to the bound.
func TestRatio(t *testing.T) {
	const calls = 20_000
	for _, ratio := range []float64{0.01, 0.25} {
		telemetry, spans := recording(ratio, math.MaxInt)
		node, conn := account(t, network(), telemetry)
		for name, c := range map[string]struct {
			caller shard.Caller
			calls  int
		}{"near": {node, calls}, "far": {conn, calls / 4}} {
			spans.Reset()
			ref := fixture.NewAccountClient(c.caller).Ref("ann")
			for range c.calls {
				_, err := ref.Add(t.Context(), 1)
				require.NoError(t, err)
			}
			traced := 0
			for _, span := range spans.Started() {
				if span.SpanKind() == trace.SpanKindClient {
					traced++
				}
			}
			want := ratio * float64(c.calls)
			require.InDelta(t, want, traced, 6*math.Sqrt(want), fmt.Sprint(name, " ", ratio))
		}
	}
	telemetry, spans := recording(1, 10)
	node, _ := account(t, network(), telemetry)
	for range 100 {
		_, err := fixture.NewAccountClient(node).Ref("ann").Add(t.Context(), 1)
		require.NoError(t, err)
	}
	require.Positive(t, len(spans.Started()))
	require.LessOrEqual(t, len(spans.Started()), 2*2*10, "at most 10 a second, of 2 spans each")
}

// TestUntracedCallsAllocateNothing: a call that is not traced allocates as much as without a
// Telemetry: within the process, with and without a parent, and to another process.
func TestUntracedCallsAllocateNothing(t *testing.T) {
	telemetry, spans := recording(1e-9, 1)
	counts := map[string][2]float64{}
	for i, tracing := range []shard.Tracing{nil, telemetry} {
		node, conn := account(t, network(), tracing)
		unsampled, _ := below(t.Context(), false)
		near, far := fixture.NewAccountClient(node).Ref("ann"), fixture.NewAccountClient(conn).Ref("ann")
		for name, call := range map[string]func() error{
			"near":        func() error { _, err := near.Add(t.Context(), 1); return err },
			"near, below": func() error { _, err := near.Add(unsampled, 1); return err },
			"far":         func() error { _, err := far.Add(t.Context(), 1); return err },
		} {
			both := counts[name]
			both[i] = math.Inf(1)
			for range 20 { // allocations of the processes beside the calls count, too
				both[i] = min(both[i], testing.AllocsPerRun(200, func() {
					if err := call(); err != nil {
						t.Fatal(err)
					}
				}))
			}
			counts[name] = both
		}
	}
	for name, both := range counts {
		require.LessOrEqual(t, both[1], both[0], name)
	}
	require.Zero(t, counts["near"][1])
	require.Empty(t, spans.Started())
}

// TestTracesAreSpread: if calls would begin more traces than allowed, the allowed traces are spread
// over time.
func TestTracesAreSpread(t *testing.T) {
	telemetry, _ := recording(1, 100)
	var began []time.Time
	for at := (time.Time{}).Add(time.Hour); at.Before((time.Time{}).Add(time.Hour + time.Second)); at = at.Add(time.Millisecond / 10) {
		if telemetry.Begin(at) {
			began = append(began, at)
		}
	}
	require.InDelta(t, 110, len(began), 2, "100, and a tenth at once in the beginning")
	for i := 12; i < len(began); i++ {
		require.InDelta(t, 10*time.Millisecond, began[i].Sub(began[i-1]), float64(time.Millisecond))
	}
}
