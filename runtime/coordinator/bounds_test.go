package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestFormerTablesAreBounded: a coordinator that has changed its table many times keeps only the
// latest of the former tables.
func TestFormerTablesAreBounded(t *testing.T) {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	s.run([]string{"start", "a", "term=1"})
	s.run([]string{"view", "a:up:hosts"})
	const kinds = maxHistory + 10
	for i := range kinds {
		s.run([]string{"register", "a", fmt.Sprintf("Kind%d/1", i), fmt.Sprintf("seq=%d", i+1)})
		s.run([]string{"ask", "a", fmt.Sprintf("Kind%d", i)})
		s.run([]string{"tick", "1s"})
	}
	if seq := s.c.table.Version().Seq; seq <= maxHistory+1 {
		t.Fatalf("the table changed %d times, want more than %d", seq, maxHistory+1)
	}
	if n := len(s.c.history); n != maxHistory {
		t.Errorf("%d former tables are kept, want %d", n, maxHistory)
	}
	if last := s.c.history[maxHistory-1].Version(); last.Seq+1 != s.c.table.Version().Seq {
		t.Errorf("the last of them is %v, and the table is %v", last, s.c.table.Version())
	}
}

// TestKnownTypesMakeRoomForAskedOnes: the coordinator remembers a bounded number of types that were
// asked for before a member had registered them. A type leaves this list when it is registered.
func TestKnownTypesMakeRoomForAskedOnes(t *testing.T) {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	s.run([]string{"start", "a", "term=1"})
	s.run([]string{"view", "a:up:hosts", "b:up:hosts"}) // recovery waits for b
	s.run([]string{"ask", "a", "Cart"})
	if len(s.c.asked) != 1 {
		t.Fatalf("%d types are asked for, want 1", len(s.c.asked))
	}
	s.run([]string{"register", "a", "Cart/2"})
	if k := s.c.types["Cart"]; k == nil || !k.wanted {
		t.Error("the type is not known, or nobody wants it")
	}
	if len(s.c.asked) != 0 {
		t.Errorf("%d types are still asked for, want none", len(s.c.asked))
	}
}

// TestShardsAreBounded: types are accepted up to exactly maxShards shards together. A type that
// exceeds this is refused.
func TestShardsAreBounded(t *testing.T) {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	s.run([]string{"start", "a", "term=1"})
	s.run([]string{"view", "a:up:hosts"})
	r := Register{Term: s.term("1"), Node: node("a"), Seq: 1}
	add := func(shards uint32) {
		r.Types = append(r.Types, TypeInfo{Name: fmt.Sprintf("Kind%d", len(r.Types)), Package: "p", Shards: shards, HashName: "xxh64", Hosts: true})
	}
	for range maxShards / placement.MaxShards {
		add(placement.MaxShards)
	}
	add(1)
	out := s.c.Step(s.now, Receive{node("a"), r})
	if s.c.shards != maxShards {
		t.Errorf("%d shards are known, want %d", s.c.shards, maxShards)
	}
	var refused []string
	for _, e := range out.Events {
		if e.What == TypeRefused {
			refused = append(refused, e.Reason)
		}
	}
	if len(refused) != 1 || !strings.Contains(refused[0], r.Types[len(r.Types)-1].Name+":") {
		t.Errorf("refused: %v, want the last type alone", refused)
	}
}

// TestRecoveryForgetsTheRemoved: a member that registered and was removed during recovery is
// forgotten when recovery has used its claims.
func TestRecoveryForgetsTheRemoved(t *testing.T) {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	for _, line := range []string{
		"start c term=2", "view a:up:hosts b:up:hosts c:up:hosts", "register c Cart/2", "register b Cart/2", "view a:up:hosts c:up:hosts",
	} {
		s.run(strings.Fields(line))
	}
	if s.c.members[node("b")] == nil {
		t.Fatal("its claims are forgotten before they counted")
	}
	s.run(strings.Fields("register a Cart/2"))
	if s.c.members[node("b")] != nil {
		t.Error("it is remembered after recovery")
	}
}

// TestDefaults: unset fields of a Config get their defaults, and set fields keep their values.
func TestDefaults(t *testing.T) {
	for _, tt := range []struct{ set, want Config }{
		{Config{}, Config{MaxMoves: 3, MaxLeaveMoves: 32, RebalanceInterval: 10 * time.Second, ResendInterval: 500 * time.Millisecond, StatusInterval: time.Second}},
		{
			Config{MaxMoves: 1, MaxLeaveMoves: 2, RebalanceInterval: 3, ResendInterval: 4, StatusInterval: 5},
			Config{MaxMoves: 1, MaxLeaveMoves: 2, RebalanceInterval: 3, ResendInterval: 4, StatusInterval: 5},
		},
	} {
		tt.set.Self, tt.set.Term = node("a"), placement.Term{Number: 1, Incarnation: 1}
		c, err := New(tt.set)
		if err != nil {
			t.Fatal(err)
		}
		got := c.config
		if got.MaxMoves != tt.want.MaxMoves || got.MaxLeaveMoves != tt.want.MaxLeaveMoves || got.RebalanceInterval != tt.want.RebalanceInterval ||
			got.ResendInterval != tt.want.ResendInterval || got.StatusInterval != tt.want.StatusInterval {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}
