package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	shard "github.com/shardgen/shardgen/runtime"
)

func TestMisses(t *testing.T) {
	limits := Limits{Failed: 0, Unknown: unjudged, Lost: 1, Pause: 250 * time.Millisecond, Recovery: unjudged}
	tests := []struct {
		name string
		row  Row
		want string
	}{
		{"all within", Row{Verdict: load.Verdict{Calls: 9, Unknown: 5, Lost: 1}, Timing: load.Timing{Longest: 250 * time.Millisecond, Recovery: time.Hour}}, "[]"},
		{
			"counts",
			Row{Verdict: load.Verdict{Failed: 1, Lost: 2, Doubled: 3, Disorder: 4, Misstated: 5}},
			"[failed: 1, want at most 0 lost: 2, want at most 1 doubled: 3, want at most 0 out of order: 4, want at most 0 misstated: 5, want at most 0]",
		},
		{"times", Row{Timing: load.Timing{Longest: 251 * time.Millisecond}}, "[longest pause: 251ms, want at most 250ms]"},
		{"silence", Row{Timing: load.Timing{Silent: 1}}, "[entities that do not answer: 1, want at most 0]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(limits.misses(tt.row)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPrint(t *testing.T) {
	row := Row{
		Fault:   "leave",
		Verdict: load.Verdict{Calls: 20000, Lost: 1, Examples: []string{"lost: call 1"}},
		Timing:  load.Timing{Longest: 312345678},
		Notes:   []string{"a note"}, Misses: []string{"lost: 1, want at most 0"},
	}
	const want = `fault  calls  failed  unknown  lost  doubled  out of order  misstated  longest pause  all succeed after
leave  20000  0       0        1     0        0             0          312.3ms        0s
a note
lost: call 1
miss: lost: 1, want at most 0
`
	var got strings.Builder
	if err := Print(&got, row); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}

func TestNames(t *testing.T) {
	for _, f := range All() {
		if got, err := ByName(f.Name); err != nil || got.About != f.About {
			t.Errorf("%s: found %q, %v", f.Name, got.About, err)
		}
		runs := f.Inject != nil || f.Strike != nil || f.Hit != nil || f.Subject == OnEveryNode || f.Subject == OnReminders || f.Subject == OnStreams
		if !runs || f.About == "" || strings.Contains(f.About, "\n") {
			t.Errorf("%s is incomplete", f.Name)
		}
	}
	if _, err := ByName("earthquake"); err == nil {
		t.Error("found an earthquake")
	}
}

// TestNeedsRefuse: a fault that cannot run on this machine is refused with an error, and no process
// is started.
func TestNeedsRefuse(t *testing.T) {
	want := errors.New("there is no network here")
	f := Fault{Name: "storm", Nodes: 3, Needs: func() error { return want }}
	_, err := Do(t.Context(), f, Options{})
	if !errors.Is(err, want) || err.Error() != "storm: there is no network here" {
		t.Errorf("got error %v, want %q", err, "storm: there is no network here")
	}
}

// TestBound: the bound of a run suffices for all default options, and grows with Length, Rounds and
// Times.
func TestBound(t *testing.T) {
	for _, f := range All() {
		o := Options{}.withDefaults(f)
		lasts := time.Duration(max(f.Lengths, 1)) * o.Length
		if f.Rounds > 0 {
			lasts *= time.Duration(o.Rounds)
		}
		lasts += f.Within + time.Duration(o.Times)*max(o.Length, effectTimeout) + time.Duration(o.Calls)*time.Second/time.Duration(o.Load.Rate)
		if got := (Options{}).Bound(f); got < lasts+startBound {
			t.Errorf("%s: bound %v, want at least %v to start and %v for the rest", f.Name, got, startBound, lasts)
		}
	}
	tests := []struct {
		fault Fault
		more  Options
		by    time.Duration
	}{
		{loss, Options{Length: 10 * time.Minute}, 16 * time.Minute}, // twice 10 instead of 2
		{flipFlop, Options{Rounds: flipFlop.Rounds + 1}, 2 * flipFlop.Length},
		{starved, Options{Length: starved.Length + time.Minute}, time.Minute},
	}
	for _, tt := range tests {
		if got, want := tt.more.Bound(tt.fault), (Options{}).Bound(tt.fault)+tt.by; got != want {
			t.Errorf("%s with %+v: bound %v, want %v", tt.fault.Name, tt.more, got, want)
		}
	}
}

// TestLanes: a run whose direct lanes carry nothing is a miss, because it tests no direct lane.
func TestLanes(t *testing.T) {
	some, none := cluster.Frames{All: 200, Direct: 150}, cluster.Frames{All: 7}
	tests := []struct {
		lanes *Lanes
		want  string
	}{
		{nil, "[]"},
		{&Lanes{some, some}, "[]"},
		{&Lanes{some, none}, "[data frames on direct lanes: 150 of 200 (75%) of nodes, 0 of 7 (0%) of callers, want some of both]"},
		{&Lanes{none, some}, "[data frames on direct lanes: 0 of 7 (0%) of nodes, 150 of 200 (75%) of callers, want some of both]"},
		{&Lanes{}, "[data frames on direct lanes: 0 of 0 (0%) of nodes, 0 of 0 (0%) of callers, want some of both]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(tt.lanes.missed()); got != tt.want {
			t.Errorf("misses %s, want %s", got, tt.want)
		}
	}
}

func TestNoticing(t *testing.T) {
	strike := func(victim string, ms ...int) NoticedStrike {
		s := NoticedStrike{Victim: victim}
		for i, m := range ms {
			s.Seen = append(s.Seen, Sight{string(rune('a' + i)), time.Duration(m) * time.Millisecond})
		}
		return s
	}
	n := Noticing{
		Fault: "kill", Nodes: 3, Limit: 2 * time.Second,
		Strikes: []NoticedStrike{strike("x", 1000, 2000), strike("y", 900, 2001), strike("z", 950, 1100)},
	}
	const want = `kill  1: x, downed at a 1s, b 2s
kill  2: y, downed at a 900ms, b 2.001s
kill  3: z, downed at a 950ms, b 1.1s
kill of one of 3 nodes: downed on all others after p50 2s, max 2.001s; within 2s: 2 of 3
miss: strike 2: noticed by all after 2.001s, want at most 2s
`
	var got strings.Builder
	if err := Print(&got, n); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}

func TestHanding(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	life := func(node string, from, to int) Life {
		return Life{node, start.Add(time.Duration(from) * time.Millisecond), start.Add(time.Duration(to) * time.Millisecond)}
	}
	h := Handing{
		Fault: "singleton-leave", Nodes: 3, Calls: 100, Limits: Limits{Pause: 250 * time.Millisecond},
		Strikes: []HandedStrike{
			{From: "n1", To: "n2", Pause: 20 * time.Millisecond},
			{From: "n2", To: "n3", Pause: 251 * time.Millisecond, Failed: 1, Forgot: 2, Errors: []string{"an error"}},
		},
		Lives: []Life{life("n1", 0, 100), life("n2", 101, 200), life("n3", 190, 300)},
	}
	const want = `singleton-leave  1: n1 → n2, longest pause 20ms, 0 calls failed, the state of 0 callers went
singleton-leave  2: n2 → n3, longest pause 251ms, 1 calls failed, the state of 2 callers went
    an error
singleton-leave on 3 nodes, 2 times: 100 calls, 1 failed; longest pause p50 251ms, max 251ms; 3 instances, never two at once: false
miss: strike 2: 1 calls failed, want at most 0
miss: strike 2: the state of 2 callers was lost, want at most 0
miss: strike 2: no answer for 251ms, want at most 250ms
miss: two at once: n2 until 10ms after n3 began
`
	var got strings.Builder
	if err := Print(&got, h); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}

// TestSlowdown: on a machine with too few processors, a delay that a foreign looping process causes
// too is not blamed on the poison. On other machines it is.
func TestSlowdown(t *testing.T) {
	const ms = time.Millisecond
	needed := processorsFor(5, 1)
	if needed != 8 {
		t.Errorf("%d processors for five nodes and a server, want 8", needed)
	}
	tests := []struct {
		name       string
		processors int
		foreign    time.Duration
		poisoned   time.Duration
		limit      float64
		miss       string
	}{
		{"few, as beside the foreign process", 2, 60 * ms, 70 * ms, 1.5, ""},
		{"few, worse than that", 2, 60 * ms, 100 * ms, 1.5, "1.67 times that beside the foreign process, want at most 1.5"},
		{"one too few", needed - 1, 60 * ms, 70 * ms, 1.5, ""},
		{"enough", needed, 20 * ms, 29 * ms, 1.5, ""},
		{"enough, and worse than before", needed, 60 * ms, 70 * ms, 1.5, "3.50 times what it was, want at most 1.5"},
		{"no limit", needed, 60 * ms, 700 * ms, 0, ""},
	}
	for _, tt := range tests {
		var r report
		s := slowdown{where: "here", processors: tt.processors, needed: needed, quiet: 20 * ms, foreign: tt.foreign, poisoned: tt.poisoned}
		s.judge(&r, tt.limit)
		got := strings.Join(r.misses, "; ")
		if len(r.notes) != 1 || (got == "") != (tt.miss == "") || !strings.Contains(got, tt.miss) {
			t.Errorf("%s: notes %q, misses %q, want %q", tt.name, r.notes, got, tt.miss)
		}
	}
}

// TestLedgersAreJudged: lost and doubled calls are found, and a call of unknown outcome may or may
// not have run.
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

// TestEffectsAreJudged finds sales that an observer missed or saw twice, and sales that were never
// acknowledged.
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

// TestAppliedIsJudged finds messages that a stock has missed, heard twice or heard in another
// order. Messages that were published twice are no fault.
func TestAppliedIsJudged(t *testing.T) {
	for _, test := range []struct {
		name                    string
		got                     []int64
		want                    heard
		lost, doubled, disorder int
	}{
		{"all well", []int64{1, 2, 2, 3}, heard{3, 1, 0}, 0, 0, 0},
		{"the last lost", []int64{1, 2}, heard{3, 0, 0}, 1, 0, 0},
		{"one lost", []int64{1, 3}, heard{3, 0, 0}, 1, 0, 0},
		{"a copy lost", []int64{1, 2, 3}, heard{3, 1, 0}, 1, 0, 0},
		{"one doubled", []int64{1, 2, 2, 3}, heard{3, 0, 0}, 0, 1, 0},
		{"out of order", []int64{1, 3, 2}, heard{3, 0, 0}, 0, 0, 1},
		{"nothing", nil, heard{3, 0, 0}, 3, 0, 0},
		{"more than there were", []int64{1, 2, 3}, heard{2, 0, 0}, 0, 1, 0},
	} {
		var got heard
		for _, n := range test.got {
			got.hear(n)
		}
		var a Applied
		a.compare("s", test.want, got)
		if a.Lost != test.lost || a.Doubled != test.doubled || a.Disorder != test.disorder {
			t.Errorf("%s: lost %d, doubled %d, out of order %d, want %d, %d, %d", test.name, a.Lost, a.Doubled, a.Disorder, test.lost, test.doubled, test.disorder)
		}
		if failed := test.lost+test.doubled+test.disorder > 0; failed != (len(a.Missed()) > 0) {
			t.Errorf("%s: misses %q", test.name, a.Missed())
		}
	}
}
