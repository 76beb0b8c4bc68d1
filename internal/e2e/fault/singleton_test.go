package fault

import (
	"strings"
	"testing"
	"time"
)

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
	if err := h.Print(&got); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}
