package coordinator

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestWakesLaterWhileItRecovers: while a coordinator waits for a member to register, its WakeAt is
// in the future. Otherwise it would run in a loop until that member has registered or is down.
func TestWakesLaterWhileItRecovers(t *testing.T) {
	s := &script{t: t, now: t0}
	s.c, _ = New(Config{Self: node("a"), Term: placement.Term{Number: 3, Incarnation: 7}})
	s.c.Step(t0, s.view([]string{"a:up:hosts", "b:up:hosts:unreachable"}))
	out := s.c.Step(t0, Receive{node("a"), Register{Term: s.c.config.Term, Node: node("a"), Seq: 1, Types: []TypeInfo{{Name: "Cart", Package: "p/q", Shards: 256, HashName: "xxh64", Hosts: true}}}})
	for now := t0; now.Before(t0.Add(time.Minute)); now = out.WakeAt {
		if out = s.c.Step(now, Tick{}); !out.WakeAt.After(now) {
			t.Fatalf("%v after the begin the next step is due %v ago", now.Sub(t0), now.Sub(out.WakeAt))
		}
	}
	if s.c.Recovered() {
		t.Error("it has recovered without b")
	}
}
