package shardotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
)

// A point is a metric's data for some labels: a value and the number of points, or the count and sum
// of a histogram.
type point struct {
	value int64
	count uint64
	sum   float64
}

// read adds up a metric's points that have all the labels, each written key=value.
func (s *scene) read(name string, labels ...string) (all point) {
	s.t.Helper()
	m, ok := s.metrics()[name]
	if !ok {
		return all
	}
	has := func(set attribute.Set) bool {
		for _, l := range labels {
			key, value, _ := strings.Cut(l, "=")
			if v, ok := set.Value(attribute.Key(key)); !ok || v.AsString() != value {
				return false
			}
		}
		return true
	}
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				all.count++
				all.value += p.Value
			}
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				all.sum += p.Value
			}
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				all.value += p.Value
			}
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				all.count += p.Count
				all.sum += p.Sum
			}
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			if has(p.Attributes) {
				all.count += p.Count
				all.sum += float64(p.Sum)
			}
		}
	default:
		s.t.Fatalf("%s is %T", name, data)
	}
	return all
}

// observe observes a node until the test ends.
func (s *scene) observe(node string) {
	s.t.Helper()
	stop, err := s.telemetry.Observe(s.Node(node), s.meters)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, stop()) })
}

// TestWaiting: calls that wait for a turn are counted, with their bytes. When they have run, their
// wait is measured. A call that does not fit into the mailbox is counted as refused, with the
// cause.
func TestWaiting(t *testing.T) {
	performWith(t, func(s *scene) {
		ctx := s.t.Context()
		users := auction.NewUserClient(s.Client())
		require.NoError(s.t, users.Ref("ann").Deposit(ctx, 100))
		s.place()
		s.observe("n1")
		require.Zero(s.t, s.read("shardgen.calls.queued").value)
		require.Zero(s.t, s.read("shardgen.buffer.usage").value)
		require.Equal(s.t, s.Node("n1").Load().Process.Capacity, s.read("shardgen.processors.capacity").sum)
		require.Positive(s.t, s.read("shardgen.processors.capacity").sum)
		before, commits := s.read("shardgen.call.queue.duration", "rpc.method=User/Deposit"), s.read("shardgen.call.commit.duration", "rpc.method=User/Deposit")

		results := make(chan error, 4)
		go func() { results <- users.Ref("ann").Bid(ctx, "vase", 60) }()
		s.Advance(latency / 2)
		for range 3 { // two of these find room
			go func() { results <- users.Ref("ann").Deposit(ctx, 1) }()
		}
		s.Advance(latency) // the bid's turn now asks the auction
		require.EqualValues(s.t, 2, s.read("shardgen.calls.queued", "shardgen.type=User").value)
		waiting := s.read("shardgen.calls.waiting.size", "shardgen.type=User").value
		require.Positive(s.t, waiting)
		require.Equal(s.t, waiting, s.read("shardgen.buffer.usage").value)
		require.Greater(s.t, s.read("shardgen.buffer.limit").value, waiting)
		require.EqualValues(s.t, 1, s.read("shardgen.faults", "shardgen.check=buffers").value, "calls were refused")
		refused := 0
		for range 4 {
			if err := <-results; err != nil {
				require.ErrorIs(s.t, err, shard.ErrOverloaded)
				refused++
			}
		}
		require.Equal(s.t, 1, refused)
		require.EqualValues(s.t, 1, s.read("shardgen.calls.refused", "error.type=overloaded").value)
		require.EqualValues(s.t, 1, s.read("shardgen.calls.refused").value)
		require.EqualValues(s.t, 1, s.read("shardgen.events", "shardgen.reason=refused").value)
		require.Zero(s.t, s.read("shardgen.calls.queued").value)

		after := s.read("shardgen.call.queue.duration", "rpc.method=User/Deposit")
		require.EqualValues(s.t, 2, after.count-before.count)
		require.GreaterOrEqual(s.t, after.sum-before.sum, latency.Seconds(), "both waited for the bid")
		late := s.read("shardgen.call.commit.duration", "rpc.method=User/Deposit")
		require.EqualValues(s.t, 2, late.count-commits.count)
		require.GreaterOrEqual(s.t, late.sum-commits.sum, 2*appending.Seconds())
	}, func(n *shard.Node) error { return auction.HostWith(n, shard.MaxMailboxCalls(2)) })
}

// TestAppends: each append to the store is measured, with its number of commits, until stop is
// called.
func TestAppends(t *testing.T) {
	perform(t, func(s *scene) {
		users := auction.NewUserClient(s.Client())
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		s.Move("User", "ann", "n1")
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		stop, err := s.telemetry.Observe(s.Node("n1"), s.meters)
		require.NoError(s.t, err)
		before := s.read("shardgen.store.append.duration", "shardgen.type=User")
		const calls = 20
		done := make(chan error, calls)
		for range calls { // all during the append of the first call
			go func() { done <- users.Ref("ann").Deposit(s.t.Context(), 1) }()
		}
		for range calls {
			require.NoError(s.t, <-done)
		}
		after := s.read("shardgen.store.append.duration", "shardgen.type=User")
		require.EqualValues(s.t, 2, after.count-before.count)
		require.InDelta(s.t, 2*appending.Seconds(), after.sum-before.sum, 1e-6)
		commits := s.read("shardgen.store.append.commits", "shardgen.type=User")
		require.Equal(s.t, point{count: 2, sum: calls}, commits)
		require.Greater(s.t, s.read("shardgen.store.append.size", "shardgen.type=User").sum, float64(calls))
		require.NoError(s.t, users.Tell("ann", shard.In(time.Second)).Deposit(s.t.Context(), 1))
		s.Advance(3 * time.Second)
		require.EqualValues(s.t, 1, s.read("shardgen.reminder.lateness.duration", "shardgen.type=User").count)
		frames := s.read("shardgen.frame.envelopes")
		require.Positive(s.t, frames.count)
		require.GreaterOrEqual(s.t, frames.sum, float64(calls), "the answers")

		commits = s.read("shardgen.store.append.commits", "shardgen.type=User")
		require.NoError(s.t, stop())
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		require.Equal(s.t, commits, s.read("shardgen.store.append.commits", "shardgen.type=User"))
	})
}

// TestLives: activations, passivations and passivated bytes are counted by reason.
func TestLives(t *testing.T) {
	const idle = 5 * time.Second
	performWith(t, func(s *scene) {
		users := auction.NewUserClient(s.Client())
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		s.Move("User", "ann", "n1")
		s.observe("n1")
		count := func(what, why string) int64 {
			return s.read("shardgen.entities."+what+"s", "shardgen.type=User", "shardgen."+what+"="+why).value
		}
		recovered, idles, bytes := count("activation", "recovered"), count("passivation", "idle"), s.read("shardgen.entities.passivated.size").value
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		require.Equal(s.t, recovered+1, count("activation", "recovered"))
		require.Equal(s.t, idles, count("passivation", "idle"))
		s.Advance(2 * idle)
		require.Equal(s.t, idles+1, count("passivation", "idle"))
		require.Greater(s.t, s.read("shardgen.entities.passivated.size", "shardgen.type=User").value, bytes)

		fresh, moving := count("activation", "fresh"), count("passivation", "moving")
		for i := range 30 {
			require.NoError(s.t, users.Ref(fmt.Sprint(i)).Deposit(s.t.Context(), 1))
		}
		require.Greater(s.t, count("activation", "fresh"), fresh)
		id := "ann"
		require.NoError(s.t, users.Ref(id).Deposit(s.t.Context(), 1))
		s.Move("User", id, "n2")
		require.Equal(s.t, moving+1, count("passivation", "moving"))
	}, func(n *shard.Node) error { return auction.HostWith(n, shard.IdleAfter(idle)) })
}

// TestMoves: a move is counted at the home that the shard leaves, with its pause.
func TestMoves(t *testing.T) {
	var hold chan struct{}
	performWith(t, func(s *scene) {
		hold = make(chan struct{})
		users := auction.NewUserClient(s.Client())
		require.NoError(s.t, users.Ref("ann").Deposit(s.t.Context(), 1))
		s.Move("User", "ann", "n1")
		s.Settle()
		s.observe("n1")
		begun, ended := s.read("shardgen.moves.started", "shardgen.type=User").value, s.read("shardgen.moves.ended", "shardgen.type=User", "shardgen.move.outcome=committed").value
		s.Move("User", "ann", "n2")
		require.Equal(s.t, begun+1, s.read("shardgen.moves.started", "shardgen.type=User").value)
		require.Equal(s.t, ended+1, s.read("shardgen.moves.ended", "shardgen.type=User", "shardgen.move.outcome=committed").value)
		require.Zero(s.t, s.read("shardgen.moves.active").value)
		pause := s.read("shardgen.move.pause.duration", "shardgen.type=User", "shardgen.move.outcome=committed")
		require.EqualValues(s.t, 1, pause.count)
		require.GreaterOrEqual(s.t, pause.sum, 2*latency.Seconds(), "the state goes there, and the word comes back")

		s.Move("User", "ann", "n1")
		held := make(chan error, 1)
		go func() { // this turn outlasts Config.HandoffTimeout
			_, err := users.Ref("ann", shard.Timeout(time.Hour)).Free(s.t.Context())
			held <- err
		}()
		s.Advance(2 * latency)
		require.NoError(s.t, s.Node("n1").PinShards(s.t.Context(), "User", map[uint32]string{s.shard("ann"): "n3"}))
		s.Until("the move is under way", func() bool { return s.read("shardgen.moves.active", "shardgen.type=User").value == 1 })
		s.Until("it is given up", func() bool {
			return s.read("shardgen.moves.ended", "shardgen.type=User", "shardgen.move.outcome=given up").value == 1
		})
		paused := s.read("shardgen.move.pause.duration", "shardgen.move.outcome=given up")
		require.EqualValues(s.t, 1, paused.count)
		require.GreaterOrEqual(s.t, paused.sum, 60.)
		close(hold)
		require.NoError(s.t, <-held)
	}, func(n *shard.Node) error {
		return auction.HostWith(n, shard.Intercept(func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
			if call.Method == "Free" {
				<-hold
			}
			return next(ctx)
		}))
	})
}

// shard returns the number of a user's shard.
func (s *scene) shard(user string) uint32 {
	s.t.Helper()
	at, err := s.Node("n1").Locate(s.t.Context(), "User", user)
	require.NoError(s.t, err)
	return at.Shard
}

// TestMembers: sent and received messages are counted, and downed members by the evidence.
func TestMembers(t *testing.T) {
	perform(t, func(s *scene) {
		s.observe("n1")
		messages := func(kind, direction string) int64 {
			return s.read("shardgen.membership.messages", "shardgen.message="+kind, "network.io.direction="+direction).value
		}
		sent, received := messages("heartbeat", "transmit"), messages("heartbeat ack", "receive")
		require.Positive(s.t, messages("gossip", "transmit")+messages("gossip", "receive"))
		s.Advance(5 * time.Second)
		require.Greater(s.t, messages("heartbeat", "transmit"), sent)
		require.Greater(s.t, messages("heartbeat ack", "receive"), received)

		require.Equal(s.t, point{count: 4}, s.read("shardgen.members.unreachable"), "one for each kind of evidence")
		require.EqualValues(s.t, 1, s.read("shardgen.members.unreachable", "shardgen.evidence=lost").count)
		s.Isolate("n3")
		s.Until("n3 is missed", func() bool { return s.read("shardgen.members.unreachable", "shardgen.evidence=silent").value == 1 })
		s.Until("n3 is downed", func() bool { return s.read("shardgen.members.downed", "shardgen.evidence=silent").value == 1 })
		require.EqualValues(s.t, 1, s.read("shardgen.members.downed").value)
		s.Mend()
	})
	perform(t, func(s *scene) {
		s.observe("n1")
		s.Kill("n2")
		s.Until("n2 is downed", func() bool { return s.read("shardgen.members.downed").value == 1 })
		require.EqualValues(s.t, 1, s.read("shardgen.members.downed", "shardgen.evidence=gone").value)
	})
}

// TestHomeless: when the only node that hosts a type is gone, its shards have no home, and calls wait
// at their sender.
func TestHomeless(t *testing.T) {
	performWith(t, func(s *scene) {
		auctions := auction.NewAuctionClient(s.Node("n1"))
		_, _, err := auctions.Ref("vase").Highest(s.t.Context())
		require.NoError(s.t, err)
		s.observe("n1")
		require.Zero(s.t, s.read("shardgen.shards.homeless").value)
		s.Kill("n3")
		s.Until("no auction has a home", func() bool { return s.read("shardgen.shards.homeless", "shardgen.type=Auction").value == 64 })
		require.Zero(s.t, s.read("shardgen.calls.held").value)
		done := make(chan error, 1)
		go func() {
			_, _, err := auctions.Ref("vase", shard.Timeout(time.Second)).Highest(s.t.Context())
			done <- err
		}()
		s.Advance(100 * time.Millisecond)
		require.EqualValues(s.t, 1, s.read("shardgen.calls.held", "shardgen.type=Auction").value)
		require.Error(s.t, <-done)
		require.Zero(s.t, s.read("shardgen.calls.held").value)
	}, func(n *shard.Node) error {
		users, auctions := auction.NewUserClient(n), auction.NewAuctionClient(n)
		err := auction.HostUser(n, func() *auction.User { return &auction.User{Auctions: auctions} })
		if n.Name() != "n3" {
			return err
		}
		return errors.Join(err, auction.HostAuction(n, func() *auction.Auction { return &auction.Auction{Users: users} }))
	})
}

// TestLabelsAreBounded: no label names an entity, a member or a shard.
func TestLabelsAreBounded(t *testing.T) {
	perform(t, func(s *scene) {
		s.observe("n1")
		for i := range 30 {
			require.NoError(s.t, auction.NewUserClient(s.Client()).Ref(fmt.Sprint("user-", i)).Deposit(s.t.Context(), 1))
		}
		var values []string
		for name, m := range s.metrics() {
			if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok {
				require.LessOrEqual(s.t, len(gauge.DataPoints), 10, name)
				for _, p := range gauge.DataPoints {
					for _, l := range p.Attributes.ToSlice() {
						values = append(values, l.Value.String())
					}
				}
			}
		}
		require.NotEmpty(s.t, values)
		require.False(s.t, slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "user-") || v == "n1" }))
	})
}
