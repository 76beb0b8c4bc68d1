package coordinator

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestFollowerKeepsThePause: a member keeps the latest pause, confirms it, and registers with it at
// the next coordinator. An earlier pause that comes late is not kept.
func TestFollowerKeepsThePause(t *testing.T) {
	f := NewFollower(true)
	at := func(counter uint32, on bool) Paused {
		return Paused{termOf(1), Pause{placement.MakeEpoch(1, counter), on, "ann", time.Unix(5, 0)}}
	}
	for _, step := range []struct {
		Paused
		kept uint32
		on   bool
	}{{at(1, true), 1, true}, {at(3, true), 3, true}, {at(2, false), 3, true}, {at(4, false), 4, false}, {at(3, true), 4, false}} {
		out := f.Step(t0, node("a"), step.Paused)
		if want := (PauseKept{termOf(1), placement.MakeEpoch(1, step.kept)}); len(out.Send) != 1 || out.Send[0] != want {
			t.Fatalf("%v is answered by %v, want %v", step.Pause, out.Send, want)
		}
		if r := f.Register(node("b"), nil, nil); f.Pause().On != step.on || r.Pause != f.Pause() {
			t.Fatalf("after %v it keeps %v and registers with %v", step.Paused, f.Pause(), r.Pause)
		}
	}
}

// TestPauseOfALaterTerm: a coordinator does not adopt a pause whose number belongs to a later term,
// because it could not end that pause.
func TestPauseOfALaterTerm(t *testing.T) {
	s := &script{t: t, now: t0}
	s.run([]string{"start", "a", "term=1"})
	s.run([]string{"view", "a:up:hosts"})
	s.run([]string{"register", "a", "Cart/2", "paused=2.1"})
	if s.c.Pause().On {
		t.Fatal("it is taken")
	}
	s.run([]string{"balance", "a", "1", "pause"})
	s.run([]string{"balance", "a", "2", "resume"})
	if p := s.c.Pause(); p.On || p.Seq != placement.MakeEpoch(1, 2) {
		t.Fatalf("the pause is %+v, want one that was ended as 1.2", p)
	}
}
