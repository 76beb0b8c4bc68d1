package fault

import (
	"strings"
	"testing"
	"time"
)

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
	if err := n.Print(&got); err != nil || got.String() != want {
		t.Errorf("got error %v and\n%s\nwant\n%s", err, got.String(), want)
	}
}
