package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/load"
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
	if err := row.Print(&got); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}

func TestNames(t *testing.T) {
	for _, f := range All() {
		if got, err := ByName(f.Name); err != nil || got.About != f.About {
			t.Errorf("%s: found %q, %v", f.Name, got.About, err)
		}
		runs := f.Inject != nil || f.Strike != nil || f.Hit != nil || f.Subject == OnEveryNode
		if !runs || f.About == "" || strings.Contains(f.About, "\n") {
			t.Errorf("%s is incomplete", f.Name)
		}
	}
	if _, err := ByName("earthquake"); err == nil {
		t.Error("found an earthquake")
	}
}

// A fault that cannot be run on a machine is refused with a sentence, and nothing
// is started.
func TestNeedsRefuse(t *testing.T) {
	want := errors.New("there is no network here")
	f := Fault{Name: "storm", Nodes: 3, Needs: func() error { return want }}
	_, err := Do(t.Context(), f, Options{})
	if !errors.Is(err, want) || err.Error() != "storm: there is no network here" {
		t.Errorf("got error %v, want %q", err, "storm: there is no network here")
	}
}

// TestBound: the time that a run is given has room for all that it does by default, and
// grows with the length, the rounds and the times that are asked for.
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
