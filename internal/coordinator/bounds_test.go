package coordinator

import (
	"fmt"
	"testing"
	"time"
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

// TestKnownKindsMakeRoomForAskedOnes: what is remembered of kinds that were asked for before
// anybody had registered them goes once they are known, for only so many are remembered.
func TestKnownKindsMakeRoomForAskedOnes(t *testing.T) {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	s.run([]string{"start", "a", "term=1"})
	s.run([]string{"view", "a:up:hosts", "b:up:hosts"}) // recovery waits for b
	s.run([]string{"ask", "a", "Cart"})
	if len(s.c.asked) != 1 {
		t.Fatalf("%d kinds are asked for, want 1", len(s.c.asked))
	}
	s.run([]string{"register", "a", "Cart/2"})
	if k := s.c.kinds["Cart"]; k == nil || !k.wanted {
		t.Error("the kind is not known, or nobody wants it")
	}
	if len(s.c.asked) != 0 {
		t.Errorf("%d kinds are still asked for, want none", len(s.c.asked))
	}
}
