package shardotel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardgen/shardgen/examples/auction/auction"
)

// within returns the span with the given parent, name and kind.
func (s *scene) within(parent sdktrace.ReadOnlySpan, name string, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	s.t.Helper()
	for _, span := range s.spans.Ended() {
		if span.Name() == name && span.SpanKind() == kind && span.Parent().SpanID() == parent.SpanContext().SpanID() {
			require.Equal(s.t, parent.SpanContext().TraceID(), span.SpanContext().TraceID(), "the trace of %s", name)
			return span
		}
	}
	s.t.Fatalf("%s has no child %s of kind %v", parent.Name(), name, kind)
	return nil
}

// place moves user ann to n1 and auction vase to n2.
func (s *scene) place() {
	s.t.Helper()
	_, _, err := auction.NewAuctionClient(s.Client()).Ref("vase").Highest(s.t.Context())
	require.NoError(s.t, err)
	s.Move("User", "ann", "n1")
	s.Move("Auction", "vase", "n2")
	free, err := auction.NewUserClient(s.Client()).Ref("ann").Free(s.t.Context()) // both entities are active now
	require.NoError(s.t, err)
	require.EqualValues(s.t, 100, free)
	_, _, err = auction.NewAuctionClient(s.Node("n1")).Ref("vase").Highest(s.t.Context())
	require.NoError(s.t, err)
}

func lasted(span sdktrace.ReadOnlySpan) time.Duration { return span.EndTime().Sub(span.StartTime()) }

// TestTraceCrossesCalls: a trace leads from the caller to the user, and to the auction that the
// user asks in its turn, at whatever nodes they live.
func TestTraceCrossesCalls(t *testing.T) {
	perform(t, func(s *scene) {
		s.t.Helper()
		ctx := s.t.Context()
		ann := auction.NewUserClient(s.Client()).Ref("ann")
		require.NoError(s.t, ann.Deposit(ctx, 100))
		require.NoError(s.t, ann.Bid(ctx, "vase", 60))
		last := s.ended("User/Bid", trace.SpanKindClient)
		require.False(s.t, last.Parent().IsValid())
		for _, next := range []struct {
			name string
			kind trace.SpanKind
		}{
			{"User/Bid", trace.SpanKindServer},
			{"Auction/Highest", trace.SpanKindClient},
			{"Auction/Highest", trace.SpanKindServer},
		} {
			span := s.within(last, next.name, next.kind)
			require.False(s.t, span.StartTime().Before(last.StartTime()))
			require.False(s.t, span.EndTime().After(last.EndTime()))
			last = span
		}
		require.Contains(s.t, s.ended("User/Bid", trace.SpanKindServer).Attributes(), attribute.String("shardgen.entity.id", "ann"))
	})
}

// TestSpansAddUp: a call waits for its turn behind another call, and then for its commit. It has
// spans for both waits, which fill the time at the host. The caller is the entity's own node or
// outside.
func TestSpansAddUp(t *testing.T) {
	for name, far := range map[string]time.Duration{"near": 0, "far": latency} {
		t.Run(name, func(t *testing.T) {
			perform(t, func(s *scene) {
				ctx := s.t.Context()
				users := auction.NewUserClient(s.Client())
				require.NoError(s.t, users.Ref("ann").Deposit(ctx, 100))
				s.place()
				if far == 0 {
					users = auction.NewUserClient(s.Node("n1"))
				}
				s.spans.Reset()
				bid := make(chan error, 1)
				go func() { bid <- users.Ref("ann").Bid(ctx, "vase", 60) }()
				s.Advance(latency/2 + far) // the turn asks the auction, which takes twice the latency
				require.NoError(s.t, users.Ref("ann").Deposit(ctx, 1))
				require.NoError(s.t, <-bid)

				call := s.ended("User/Deposit", trace.SpanKindClient)
				host := s.within(call, "User/Deposit", trace.SpanKindServer)
				queue, commit := s.within(host, "queue", trace.SpanKindInternal), s.within(host, "commit", trace.SpanKindInternal)
				require.Equal(s.t, call.StartTime().Add(far), host.StartTime())
				require.Equal(s.t, host.StartTime(), queue.StartTime())
				require.Equal(s.t, queue.EndTime(), commit.StartTime(), "the method takes no virtual time")
				require.Equal(s.t, commit.EndTime(), host.EndTime())
				require.Equal(s.t, host.EndTime().Add(far), call.EndTime())
				require.GreaterOrEqual(s.t, lasted(queue), latency/2, "it waits for the bid")
				require.GreaterOrEqual(s.t, lasted(commit), appending)
				request := s.within(commit, "append", trace.SpanKindInternal)
				require.Equal(s.t, appending, lasted(request))
				require.Equal(s.t, commit.EndTime(), request.EndTime())
			})
		})
	}
}

// TestNoCommitSpan: a call that changes nothing has no "commit" span.
func TestNoCommitSpan(t *testing.T) {
	perform(t, func(s *scene) {
		users := auction.NewUserClient(s.Client())
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 100))
		s.within(s.ended("User/Deposit", trace.SpanKindServer), "commit", trace.SpanKindInternal)
		s.spans.Reset()
		_, err := users.Ref("ann").Free(s.t.Context())
		require.NoError(s.t, err)
		for _, span := range s.spans.Ended() {
			require.NotEqual(s.t, "commit", span.Name())
		}
	})
}

// follows returns the span of the turn that ran a tell, given the tell's span. The turn has its own
// trace, and is linked with the tell's span.
func (s *scene) follows(sent sdktrace.ReadOnlySpan) sdktrace.ReadOnlySpan {
	s.t.Helper()
	for _, span := range s.spans.Ended() {
		if span.SpanKind() == trace.SpanKindConsumer && len(span.Links()) == 1 && span.Links()[0].SpanContext.SpanID() == sent.SpanContext().SpanID() {
			require.Equal(s.t, sent.SpanContext().TraceID(), span.Links()[0].SpanContext.TraceID())
			require.Equal(s.t, sent.Name(), span.Name())
			require.False(s.t, span.Parent().IsValid())
			return span
		}
	}
	s.t.Fatalf("no turn is linked with %s among %d spans", sent.Name(), len(s.spans.Ended()))
	return nil
}

// TestTellsAreLinked: the span of a tell's turn is linked with the sender's span. The sender's span
// ends when the tell is sent, to the same process or another.
func TestTellsAreLinked(t *testing.T) {
	for _, near := range []bool{false, true} {
		t.Run(fmt.Sprint("near ", near), func(t *testing.T) {
			perform(t, func(s *scene) {
				client := auction.NewUserClient(s.Client())
				require.NoError(s.t, client.Ref("ann").Deposit(s.t.Context(), 1))
				if near {
					s.Move("User", "ann", "n1")
					client = auction.NewUserClient(s.Node("n1"))
				}
				require.NoError(s.t, client.Tell("ann").Deposit(s.t.Context(), 1))
				s.Until("it has arrived", func() bool {
					free, err := client.Ref("ann").Free(s.t.Context())
					return err == nil && free == 2
				})
				sent := s.ended("User/Deposit", trace.SpanKindProducer)
				ran := s.follows(sent)
				require.False(s.t, sent.EndTime().After(ran.StartTime()))
				s.within(ran, "commit", trace.SpanKindInternal)
			})
		})
	}
}

// TestTraceOutlivesAKill: a bid is committed with a tell to the auction, and the node of the bidder
// or the auction is killed before the tell arrives. When it arrives later, its turn is linked with
// the tell's span in the bid's turn.
func TestTraceOutlivesAKill(t *testing.T) {
	for _, victim := range []string{"n1", "n2"} {
		t.Run(victim, func(t *testing.T) {
			perform(t, func(s *scene) {
				ctx := s.t.Context()
				users, auctions := auction.NewUserClient(s.Client()), auction.NewAuctionClient(s.Client())
				require.NoError(s.t, users.Ref("ann").Deposit(ctx, 100))
				s.place()
				s.spans.Reset()
				bid := make(chan error, 1)
				go func() { bid <- users.Ref("ann").Bid(ctx, "vase", 60) }()
				s.Advance(3*latency + appending + latency/2)      // to n1, to n2 and back; the commit; half of the tell's way
				host := s.ended("User/Bid", trace.SpanKindServer) // the span includes the commit
				told := s.within(host, "Auction/Offer", trace.SpanKindProducer)
				for _, span := range s.spans.Ended() {
					require.NotEqual(s.t, trace.SpanKindConsumer, span.SpanKind(), "the tell is on its way")
				}
				s.Kill(victim)
				require.NoError(s.t, <-bid)
				s.Until("ann has the vase", func() bool {
					bidder, high, err := auctions.Ref("vase").Highest(ctx)
					return err == nil && bidder == "ann" && high == 60
				})
				ran := s.follows(told)
				s.within(ran, "commit", trace.SpanKindInternal)
			})
		})
	}
}
