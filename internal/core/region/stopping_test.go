package region

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestTurnOfALostShardKeepsItsEntity: if this node learns during a turn that the shard is at its
// new home, the turn keeps its entity until it ends. Then the entity is gone.
func TestTurnOfALostShardKeepsItsEntity(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	now := time.Unix(1000, 0)
	s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, now)
	e := s.Begin("x", 0)
	if e == nil {
		t.Fatal("x has no turn")
	}
	e.Value = "contents"
	s.BeginMove(node("b"), placement.MakeEpoch(1, 2))
	s.Place(node("b"), placement.MakeEpoch(1, 2), false, 0, now)
	if s.State() != Forwarding || !e.Lost() {
		t.Fatalf("the shard is %v, its turn is lost: %v", s.State(), e.Lost())
	}
	if e.Value == nil {
		t.Error("the contents are gone during the turn")
	}
	if next, _ := s.End(e, 0); next != nil || e.Value != nil {
		t.Errorf("after the turn: another call: %v, contents: %v; want none", next != nil, e.Value)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
