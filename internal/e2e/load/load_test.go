package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/witness"
)

// downUntil is a path whose calls fail until a moment. After that they are answered at once.
type downUntil struct{ up time.Time }

func (w downUntil) burst(context.Context, string, uint64, int) ([]Fate, string, error) {
	if time.Now().Before(w.up) {
		return []Fate{Refused}, "", errors.New("down")
	}
	return []Fate{Answered}, "n1", nil
}

// TestPauseEndsWithTheFault: even with a slow tick, a sender soon notices that its entity answers
// again.
func TestPauseEndsWithTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := &Load{stop: make(chan struct{})}
		pauses := newPauses("x")
		p := &pair{load: l, path: downUntil{begin.Add(time.Second)}, pauses: pauses}
		go p.run(begin, 3*time.Second, 0)
		<-time.After(8 * time.Second) // the bubble's
		close(l.stop)
		synctest.Wait()
		if got, want := pauses.longest(begin, time.Now()), time.Second; got < want || got >= want+retryAfter {
			t.Errorf("longest pause %v, want %v and less than %v more", got, want, retryAfter)
		}
		if made := l.Made(); made != 25 { // 20 that failed, then 1, and 3 and 1 by the tick
			t.Errorf("%d calls, want 25", made)
		}
	})
}

func TestPauses(t *testing.T) {
	type call struct {
		begin, end int // milliseconds
		failed     bool
	}
	tests := []struct {
		name      string
		calls     []call
		after     int // the fault
		now       int
		longest   int
		recovered int // -1: none disturbed
		silent    bool
	}{
		{"no calls", nil, 0, 100, 0, -1, false},
		{"all well", []call{{0, 3, false}, {100, 101, false}}, 0, 200, 3, -1, false},
		{"one was slow", []call{{0, 3, false}, {100, 401, false}, {500, 501, false}}, 50, 600, 301, 401, false},
		{"slow before the fault", []call{{0, 400, false}, {500, 501, false}}, 450, 600, 1, -1, false},
		{"slow over the fault", []call{{0, 400, false}, {500, 501, false}}, 200, 600, 400, 400, false},
		{"one failed", []call{{0, 3, false}, {100, 110, true}, {200, 205, false}}, 50, 300, 105, 205, false},
		{"some failed, then another was slow", []call{{100, 110, true}, {150, 160, true}, {200, 205, false}, {300, 600, false}, {700, 701, false}}, 50, 800, 300, 600, false},
		{"two senders: the other's answer ends the pause", []call{{110, 120, true}, {100, 130, false}, {140, 141, false}}, 50, 200, 30, 130, false},
		{"failed before the fault", []call{{0, 10, true}, {20, 21, false}, {100, 101, false}}, 50, 200, 1, -1, false},
		{"silent", []call{{0, 3, false}, {100, 110, true}, {200, 210, true}}, 50, 1000, 900, 100, true},
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, tt := range tests {
		p := newPauses("x")
		for _, c := range tt.calls {
			var err error
			if c.failed {
				err = errors.New("failed")
			}
			p.ended(at(c.begin), at(c.end), "n1", err)
		}
		if got, want := p.longest(at(tt.after), at(tt.now)), time.Duration(tt.longest)*time.Millisecond; got != want {
			t.Errorf("%s: longest pause %v, want %v", tt.name, got, want)
		}
		got, silent := p.recovered(at(tt.after), 250*time.Millisecond)
		want := time.Time{}
		if tt.recovered >= 0 {
			want = at(tt.recovered)
		}
		if !got.Equal(want) || silent != tt.silent {
			t.Errorf("%s: recovered at %v, silent %v; want %v, %v", tt.name, got, silent, want, tt.silent)
		}
	}
}

// parseHistory reads a history from text, with one fact on each line:
//
//	a/s: answered told refused uncertain   the fates of calls 1, 2, … of s to a
//	ran a/s 1 2 3                          what ran, in order of time
//	remembers a/s 1 2 3                    the state in the end
//	died a                                 the process of a was killed
func parseHistory(t *testing.T, text string) history {
	t.Helper()
	h := history{fates: map[pairKey][]Fate{}, remembered: map[pairKey][]uint64{}, died: map[string]bool{}}
	fates := map[string]Fate{"answered": Answered, "told": Told, "refused": Refused, "uncertain": Uncertain}
	pair := func(s string) pairKey {
		entity, sender, ok := strings.Cut(s, "/")
		if !ok {
			t.Fatalf("%q is no entity/sender", s)
		}
		return pairKey{entity, sender}
	}
	numbers := func(words []string) (all []uint64) {
		for _, w := range words {
			var n uint64
			if _, err := fmt.Sscan(w, &n); err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words := strings.Fields(line)
		switch words[0] {
		case "ran":
			key := pair(words[1])
			for _, seq := range numbers(words[2:]) {
				h.ran = append(h.ran, witness.Record{Entity: key.entity, Sender: key.sender, Seq: seq})
			}
		case "remembers":
			h.remembered[pair(words[1])] = numbers(words[2:])
		case "died":
			h.died[words[1]] = true
		default:
			key := pair(strings.TrimSuffix(words[0], ":"))
			for _, w := range words[1:] {
				fate, ok := fates[w]
				if !ok {
					t.Fatalf("%q is no fate", w)
				}
				h.fates[key] = append(h.fates[key], fate)
			}
		}
	}
	return h
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name, history string
		want          Verdict
	}{
		{"all is well", `
			a/s: answered told answered
			a/t: answered
			ran a/s 1 2
			ran a/t 1
			ran a/s 3
			remembers a/s 1 2 3
			remembers a/t 1`, Verdict{Calls: 4}},
		{"an answered call never ran", `
			a/s: answered answered
			ran a/s 1
			remembers a/s 1`, Verdict{Calls: 2, Lost: 1, Examples: []string{"lost: call 2 of s to a never ran"}}},
		{"a told call never ran", `
			a/s: told answered
			ran a/s 2
			remembers a/s 2`, Verdict{Calls: 2, Lost: 1, Examples: []string{"lost: call 1 of s to a never ran"}}},
		{"state was lost", `
			a/s: answered answered
			ran a/s 1 2
			remembers a/s 2`, Verdict{Calls: 2, Lost: 1, Examples: []string{"lost: call 1 of s to a ran and is not remembered"}}},
		{"state died with its process", `
			a/s: answered told answered
			ran a/s 1 3
			remembers a/s 3
			died a`, Verdict{Calls: 3, Excused: 2}},
		{"another's death excuses nothing", `
			a/s: answered
			b/s: answered
			ran b/s 1
			ran a/s 1
			died b`, Verdict{Calls: 2, Lost: 1, Excused: 1, Examples: []string{"lost: call 1 of s to a ran and is not remembered"}}},
		{"ran twice", `
			a/s: answered answered
			ran a/s 1 2 1
			remembers a/s 1 2 1`, Verdict{Calls: 2, Doubled: 1, Examples: []string{"doubled: call 1 of s to a ran 2 times"}}},
		{"ran twice, the first time in a process that died", `
			a/s: uncertain
			ran a/s 1 1
			remembers a/s 1
			died a`, Verdict{Calls: 1, Unknown: 1, Doubled: 1, Examples: []string{"doubled: call 1 of s to a ran 2 times"}}},
		{"out of order", `
			a/s: answered told answered
			ran a/s 1 3 2
			remembers a/s 1 3 2`, Verdict{Calls: 3, Disorder: 1, Examples: []string{"out of order: call 2 of s to a ran after call 3"}}},
		{"order of two senders is free", `
			a/s: answered answered
			a/t: answered
			ran a/s 1 2
			ran a/t 1
			remembers a/s 1 2
			remembers a/t 1`, Verdict{Calls: 3}},
		{"refused calls", `
			a/s: refused refused answered
			ran a/s 2 3
			remembers a/s 2 3`, Verdict{Calls: 3, Failed: 2, Misstated: 1, Examples: []string{"misstated: call 2 of s to a was refused and ran"}}},
		{"uncertain calls may have run or not", `
			a/s: uncertain uncertain
			ran a/s 2
			remembers a/s 2`, Verdict{Calls: 2, Unknown: 2}},
	}
	for _, tt := range tests {
		if got := parseHistory(t, tt.history).judge(); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
