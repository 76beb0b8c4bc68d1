package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestLedgersAreJudged: what was lost or done twice is seen, and a call of unknown outcome may
// have run or not.
func TestLedgersAreJudged(t *testing.T) {
	unknown := &shard.CallError{Outcome: shard.Unknown, Err: errors.New("late")}
	for _, test := range []struct {
		name          string
		answers       []any // sums, or errors
		lost, doubled int
	}{
		{"all well", []any{1, 2, 3}, 0, 0},
		{"unknown that ran", []any{1, unknown, 3}, 0, 0},
		{"unknown that did not run", []any{1, unknown, 2}, 0, 0},
		{"one lost", []any{1, 2, 2}, 1, 0},
		{"one doubled", []any{1, 3}, 0, 1},
		{"unknown that ran twice", []any{1, unknown, 4}, 0, 1},
	} {
		l := &ledgers{all: make([]ledger, 1)}
		for _, a := range test.answers {
			if err, ok := a.(error); ok {
				l.note(0, time.Now(), 0, "", err)
			} else {
				l.note(0, time.Now(), int64(a.(int)), "n1", nil)
			}
		}
		if l.lost != test.lost || l.doubled != test.doubled {
			t.Errorf("%s: lost %d, doubled %d, want %d and %d", test.name, l.lost, l.doubled, test.lost, test.doubled)
		}
	}
}

func TestSurvivalMisses(t *testing.T) {
	s := Survival{
		Failed: 1, Lost: 2, Doubled: 3, Limits: durableKill.Limits,
		Rounds: []SurvivalRound{{After: []time.Duration{time.Second}}, {After: []time.Duration{time.Second, 3 * time.Second}}},
	}
	misses := s.Missed()
	for _, want := range []string{"failed: 1", "lost: 2", "doubled: 3", "time 2: entities answer after 3s"} {
		if !slices.ContainsFunc(misses, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("no miss %q in %q", want, misses)
		}
	}
	if len(misses) != 4 {
		t.Errorf("misses: %q", misses)
	}
}
