package region

import (
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestNoEntityBacksOffWhileTheShardIsToMove: an entity may keep its turn while it waits before a
// restart only if the shard is open and no move waits.
func TestNoEntityBacksOffWhileTheShardIsToMove(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	if s.MayBackOff() {
		t.Error("a closed shard lets an entity back off")
	}
	s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, time.Unix(1000, 0))
	if !s.MayBackOff() {
		t.Error("an open shard does not let an entity back off")
	}
	s.CloseBarrier(node("s"), node("b"), placement.MakeEpoch(1, 1), false, 0, time.Unix(1000, 0))
	s.BeginMove(node("c"), placement.MakeEpoch(1, 2))
	if s.state != Open || s.pending == nil {
		t.Fatalf("the shard is %v, and the move waits for the barrier: %v", s.state, s.pending != nil)
	}
	if s.MayBackOff() {
		t.Error("a shard whose move waits lets an entity back off")
	}
}

// TestBarrierIsClosedOnce: a repeated message about a barrier does not close it a second time, so
// that one Flush opens it.
func TestBarrierIsClosedOnce(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	at, epoch := time.Unix(1000, 0), placement.MakeEpoch(1, 2)
	s.Place(node("a"), epoch, false, 0, at)
	for range 2 {
		s.CloseBarrier(node("s"), node("b"), epoch, false, 0, at)
	}
	if n := s.Barriers(); n != 1 {
		t.Errorf("%d barriers are closed, want 1", n)
	}
	s.Flushed(Flush{
		Sender: transport.Peer{Address: node("s")}, Via: transport.Peer{Address: node("b")}, Epoch: epoch, Hop: placement.MakeEpoch(1, 1),
	}, 0, at)
	if s.Barriers() > 0 {
		t.Error("a barrier is closed after its Flush")
	}
}

// TestOverdueBarriersAreThoseThatOpen: Overdue, which operators see, returns exactly the barriers
// that open by timeout, from the same moment on. Younger calls then run before older ones, which
// are refused if they still come.
func TestOverdueBarriersAreThoseThatOpen(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	at, epoch := time.Unix(1000, 0), placement.MakeEpoch(1, 2)
	s.Place(node("a"), epoch, false, 0, at)
	second := at.Add(time.Second)
	s.CloseBarrier(node("s"), node("b"), epoch, false, 0, at)
	s.CloseBarrier(node("u"), node("c"), epoch, false, 0, second)
	first := Shut{node("s"), node("b"), epoch, 0}
	other := Shut{node("u"), node("c"), epoch, 0}
	for _, step := range []struct {
		at      time.Time
		overdue []Shut
		closed  int
	}{
		{at.Add(BarrierTimeout - 1), nil, 2},
		{at.Add(BarrierTimeout), []Shut{first}, 1},
		{second.Add(BarrierTimeout - 1), nil, 1},
		{second.Add(BarrierTimeout), []Shut{other}, 0},
	} {
		if got := s.Overdue(step.at); !slices.Equal(got, step.overdue) {
			t.Errorf("after %v overdue: %v, want %v", step.at.Sub(at), got, step.overdue)
		}
		s.OpenBarriers(func(transport.Address) bool { return false }, 0, step.at)
		if n := s.Barriers(); n != step.closed {
			t.Errorf("after %v %d barriers are closed, want %d", step.at.Sub(at), n, step.closed)
		}
	}
}

// TestDirectSendersAreForgottenWithTheirTenure: a sender's barrier that opened under an earlier
// tenure says nothing about calls of the next one. Senders come and go, so the shard does not keep
// them.
func TestDirectSendersAreForgottenWithTheirTenure(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	at := time.Unix(1000, 0)
	first, second, third := placement.MakeEpoch(1, 1), placement.MakeEpoch(1, 2), placement.MakeEpoch(1, 3)
	s.Place(node("a"), first, false, 0, at)
	s.GoDirect(node("s"), first, 0)
	s.Place(node("b"), second, false, 0, at)
	s.Place(node("a"), third, false, 0, at)
	s.GoDirect(node("u"), third, 0)
	if _, kept := s.barriers.direct[node("s")]; kept || len(s.barriers.direct) != 1 {
		t.Errorf("senders known to be direct: %v, want only %v", s.barriers.direct, node("u"))
	}
}
