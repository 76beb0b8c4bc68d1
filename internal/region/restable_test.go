package region

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestNoEntityRestsWhileTheShardIsToMove: an entity may keep its turn for longer than it runs only
// while the shard is open and no move waits.
func TestNoEntityRestsWhileTheShardIsToMove(t *testing.T) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{Mailbox: 9, Waiting: 9})
	if s.Restable() {
		t.Error("a closed shard lets an entity rest")
	}
	s.Place(node("a"), placement.MakeEpoch(1, 1), false, 0, time.Unix(1000, 0))
	if !s.Restable() {
		t.Error("an open shard does not let an entity rest")
	}
	s.CloseBarrier(node("s"), node("b"), placement.MakeEpoch(1, 1), time.Unix(1000, 0))
	s.BeginMove(node("c"), placement.MakeEpoch(1, 2))
	if s.state != Open || s.pending == nil {
		t.Fatalf("the shard is %v, and the move waits for the barrier: %v", s.state, s.pending != nil)
	}
	if s.Restable() {
		t.Error("a shard whose move waits lets an entity rest")
	}
}
