package main

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/bench/load"
)

// Every contestant of a group can do what the group measures, and has a column if it is a peer.
func TestGroupsHaveContestants(t *testing.T) {
	for _, g := range groups() {
		for _, name := range g.contestants() {
			c := contestants[name]
			if can := map[string]bool{
				"local": c.local != nil, "remote": c.host != nil && c.dial != nil, "idle": c.idle != nil, "cluster": c.member != nil,
			}[g.cell.kind]; !can {
				t.Errorf("%s: %s has no %s form", g.name, name, g.cell.kind)
			}
		}
		for _, name := range g.peers {
			if !strings.Contains(strings.Join(columns, " "), name) {
				t.Errorf("%s: %s has no column", g.name, name)
			}
		}
	}
}

// A row has the median, the least and the greatest of the rounds' ratios. It compares with the best
// peer, and says what failed or got lost.
func TestLine(t *testing.T) {
	rates := func(all ...float64) (rs []result) {
		for _, v := range all {
			rs = append(rs, result{PerSecond: v, P50: time.Duration(1e9 / v), Calls: 1})
		}
		return rs
	}
	rs := results{"shardgen": rates(100, 300, 200), "Publish": rates(200, 100, 400), "protoactor": rates(50, 50, 50), "grpc": rates(10, 90, 70)}
	rs["grpc"][2].Failed, rs["grpc"][1].Lost = 3, 4
	g := group{ours: []string{"shardgen"}, hand: []string{"Publish"}, peers: []string{"protoactor", "grpc"}}
	for _, c := range []struct {
		row  row
		want string
	}{
		{
			row{"case", "/s", perSecond, false},
			"| case | 200 (100–300) /s | Publish 200 (100–400) /s | **0.50×** (0.50–3.00) | 50.0 (50.0–50.0) /s | 70.0 (10.0–90.0) /s **3 failed, 4 lost** | grpc **3.33×** (2.86–10.0) |",
		},
		{
			row{"case", "ms", func(r result) float64 { return 1000 / r.PerSecond }, true},
			"| case | 5.00 (3.33–10.0) ms | Publish 5.00 (2.50–10.0) ms | **0.50×** (0.50–3.00) | 20.0 (20.0–20.0) ms | 14.3 (11.1–100) ms **3 failed, 4 lost** | grpc **3.33×** (2.86–10.0) |",
		},
	} {
		if got := c.row.line(g, rs, "shardgen"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A cell that did not run in one of the rounds has no figure, and nothing is compared with it.
func TestLineOfABrokenCell(t *testing.T) {
	rs := results{"shardgen": {{PerSecond: 10, Calls: 1}}, "grpc": {{Failed: 1, Error: "refused"}}}
	g := group{ours: []string{"shardgen"}, peers: []string{"grpc"}, rows: []row{{"case", "/s", perSecond, false}}}
	var page strings.Builder
	printTable(&page, []group{g}, []results{rs})
	for _, want := range []string{"| case | 10.0 /s |  |  |  | failed |  |\n", "- case, grpc, round 1: refused\n"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("got\n%s\nwant in it %q", page.String(), want)
		}
	}
}

// lossy is an entity. It loses one tell in lose, and refuses one in fails.
type lossy struct {
	none
	mu          sync.Mutex
	sent, got   int64
	lose, fails int64
}

func (l *lossy) tell(int, int, []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	switch {
	case l.fails > 0 && l.sent%l.fails == 1:
		return errors.New("refused")
	case l.lose > 0 && l.sent%l.lose == 0:
	default:
		l.got++
	}
	return nil
}

func (l *lossy) told(int, int) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got, nil
}

// Messages that were sent and did not arrive count as lost, and refused ones as failed. Neither
// count as calls.
func TestTellsAreCounted(t *testing.T) {
	c := cell{entities: 1, callers: 2, window: localWindow}
	until := func(l *lossy, enough func(result) bool) (r result) { // a busy machine may do nothing for a while
		for d := time.Millisecond; !enough(r); d *= 2 {
			var err error
			if r, err = tells(l, c, d); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	whole := until(new(lossy), func(r result) bool { return r.Calls > 0 })
	if whole.Lost != 0 || whole.Failed != 0 {
		t.Errorf("got %+v, want nothing failed or lost", whole)
	}
	until(&lossy{lose: 256, fails: 256}, func(r result) bool { return r.Lost > 0 && r.Failed > 0 })
}

// A call that fails counts as failed and not as done, and does not end its cell.
func TestFailedCallsAreCounted(t *testing.T) {
	var n counted
	for i := range 100 {
		if err := n.note(map[bool]error{true: errors.New("refused")}[i%10 == 0]); err != nil {
			t.Fatal(err)
		}
	}
	r := n.result(load.Measure{Calls: 100, PerSecond: 50})
	if r.Failed != 10 || r.PerSecond != 45 || r.Error != "refused" {
		t.Errorf("got %+v, want 10 failed, 45 a second and the error", r)
	}
	for range maxFailed {
		if n.note(errors.New("refused")) != nil {
			return
		}
	}
	t.Errorf("%d failed calls do not end a cell", maxFailed)
}
