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
		Effects: []Effects{{Observer: "tells", Seen: 1, Lost: 1}, {Observer: "follower", Seen: 1, Doubled: 1}, {Observer: "nobody"}, {Observer: "well", Seen: 1}},
		Strikes: []SurvivalStrike{{After: []time.Duration{time.Second}}, {After: []time.Duration{time.Second, 3 * time.Second}}},
	}
	misses := s.Missed()
	for _, want := range []string{"failed: 1", "lost: 2", "doubled: 3", "strike 2: entities answer after 3s", "tells: 1 seen, 1 lost", "follower: 1 seen, 0 lost, 1 doubled", "nobody: 0 seen"} {
		if !slices.ContainsFunc(misses, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("no miss %q in %q", want, misses)
		}
	}
	if len(misses) != 7 {
		t.Errorf("misses: %q", misses)
	}
}

// TestEffectsAreJudged: a sale that an observer missed, saw twice, or that nobody acknowledged is
// seen.
func TestEffectsAreJudged(t *testing.T) {
	for _, test := range []struct {
		name          string
		seen          []int64
		total, unsure int64
		lost, doubled int
	}{
		{"all well", []int64{1, 2, 3}, 3, 0, 0, 0},
		{"the last lost", []int64{1, 2}, 3, 0, 1, 0},
		{"one lost", []int64{1, 3}, 3, 0, 1, 0},
		{"one late", []int64{1, 3, 2}, 3, 0, 1, 1},
		{"one doubled", []int64{1, 2, 2, 3}, 3, 0, 0, 1},
		{"nothing", nil, 3, 0, 3, 0},
		{"unknown that ran", []int64{1, 2, 3}, 2, 1, 0, 0},
		{"more than there were", []int64{1, 2, 3}, 2, 0, 0, 1},
	} {
		var seen tally
		for _, n := range test.seen {
			seen.see(n)
		}
		var e Effects
		e.judge(seen, test.total, test.unsure)
		if e.Lost != test.lost || e.Doubled != test.doubled {
			t.Errorf("%s: lost %d, doubled %d, want %d and %d", test.name, e.Lost, e.Doubled, test.lost, test.doubled)
		}
	}
}
