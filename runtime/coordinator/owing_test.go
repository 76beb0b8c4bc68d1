package coordinator

import (
	"fmt"
	"testing"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestOwing: a member that has not registered owes an answer, unless it is unreachable, is Down, or
// hosts nothing.
func TestOwing(t *testing.T) {
	s := &script{t: t, now: t0}
	s.c, _ = New(Config{Self: node("a"), Term: placement.Term{Number: 3, Incarnation: 7}})
	for _, test := range []struct {
		view []string
		want string
	}{
		{[]string{"a:up:hosts"}, "[]"},
		{[]string{"a:up:hosts", "b:up:hosts", "c:up"}, fmt.Sprint([]any{node("b")})},
		{[]string{"a:up:hosts", "b:up:hosts:unreachable", "d:leaving:hosts"}, fmt.Sprint([]any{node("d")})},
		{[]string{"a:up:hosts", "b:down:hosts"}, "[]"},
	} {
		s.c.Step(t0, s.view(test.view))
		if got := fmt.Sprint(s.c.Owing()); got != test.want {
			t.Errorf("%v: got %v, want %v", test.view, got, test.want)
		}
	}
	s.c.Step(t0, s.view([]string{"a:up:hosts", "b:up:hosts"}))
	s.c.Step(t0, Receive{node("b"), Register{Term: s.c.config.Term, Node: node("b"), Seq: 1, Types: []TypeInfo{{Name: "Cart", Package: "p/q", Shards: 256, HashName: "xxh64", Hosts: true}}}})
	if got := s.c.Owing(); len(got) != 0 {
		t.Errorf("b has registered and owes: %v", got)
	}
}
