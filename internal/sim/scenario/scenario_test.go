package scenario

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
)

// small is the size of the clusters in tests.
const small = 8

// spared are the scenarios whose victims must stay members.
var spared = map[string]bool{"pause": true, "blink": true}

// TestScenarios runs each scenario twice. Both runs take the same steps, break no invariant, remove
// no healthy member, and end in one view.
func TestScenarios(t *testing.T) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{Nodes: small, Seed: 3}
			first := s.Run(o)
			second := first
			if !invariant.Race {
				second = s.Run(o)
			}
			if first.Err != nil {
				t.Error(first.Err)
			}
			if first.Hash != second.Hash || first.Steps != second.Steps {
				t.Errorf("two runs differ: %016x after %d steps, %016x after %d", first.Hash, first.Steps, second.Hash, second.Steps)
			}
			if first.Removed != 0 {
				t.Errorf("%d healthy members were removed", first.Removed)
			}
			if first.Settled < 0 && !strings.HasPrefix(s.Name, "loss") && s.Name != "flipflop" {
				t.Error("the healthy do not agree at the end")
			}
			if spared[s.Name] && first.Detected > 0 {
				t.Errorf("%d times a victim was downed; want none", first.Detected)
			}
			if first.Bytes <= 0 || first.Messages <= 0 {
				t.Errorf("nothing was measured: %+v", first)
			}
		})
	}
}

// TestCrashIsSeen: every healthy node soon sees each victim downed.
func TestCrashIsSeen(t *testing.T) {
	s, err := Find("crash")
	if err != nil {
		t.Fatal(err)
	}
	r := s.Run(Options{Nodes: small, Seed: 9})
	if want := small - 1; r.Detected != want || r.Expected != want {
		t.Errorf("got %d of %d sights, want %d", r.Detected, r.Expected, want)
	}
	if r.P50 <= time.Second || r.P99 < r.P50 || r.P99 > 3*time.Second {
		t.Errorf("got p50 %v, p99 %v; want more than the second that the broker must say it, and at most 3 s", r.P50, r.P99)
	}
}

// TestLossRemovesNobody: each node of a cluster loses 30% of the messages to it for 10 minutes. The
// cluster keeps all members, and its view changes at most once.
func TestLossRemovesNobody(t *testing.T) {
	s, err := Find("loss")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(4) {
		r := s.Run(Options{Nodes: small, Seed: seed})
		if r.Err != nil || r.Removed > 0 || r.Views > 1 {
			t.Errorf("seed %d: %d members removed and %d views (%v), want none and at most 1", seed, r.Removed, r.Views, r.Err)
		}
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("flood"); err == nil || !strings.Contains(err.Error(), "bootstrap") {
		t.Errorf("got %v, want an error that names the scenarios", err)
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	r := Result{
		Scenario: "crash", Nodes: 7, Detected: 3, Expected: 4, P50: time.Second, P99: -1, Settled: -1, Views: 2,
		Bytes: 10, MostBytes: 20, Messages: 5,
	}
	if err := Print(&out, []Result{r}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "| crash | 7 | 75% | 1.00s | - | 0 | 2 | not | 10 | 20 | 5.0 |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}

// TestTableOfManyMembersIsQuiet: after deaths in a large cluster the members ask for proofs before
// they write. Each death takes three or four writes, and there are hardly any other writes.
func TestTableOfManyMembersIsQuiet(t *testing.T) {
	s, err := Find("crash")
	if err != nil {
		t.Fatal(err)
	}
	r := s.Run(Options{Nodes: 200, Seed: 1, Table: true})
	if writes := r.TableStats.Writes; r.Err != nil || writes > 60 {
		t.Errorf("%d writes of the table, want at most 60; %v", writes, r.Err)
	}
}

// TestTableOfManyJoiners: many nodes start within a second. Guides write the rows of the others,
// many in one write, so few writes conflict.
func TestTableOfManyJoiners(t *testing.T) {
	s, err := Find("bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	r := s.Run(Options{Nodes: 300, Seed: 1, Table: true})
	if got := r.TableStats; r.Err != nil || r.Settled < 0 || r.Settled > 5*time.Second || got.Writes > 100 || got.Conflicts > 100 {
		t.Errorf("settled after %v with %+v (%v), want 5s, 100 writes and 100 conflicts at most", r.Settled, got, r.Err)
	}
}
