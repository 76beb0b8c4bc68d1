package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/e2e/witness"
)

// parseHistory reads a history as a person writes it, one line a fact:
//
//	a/s: answered told refused uncertain   the fates of calls 1, 2, … of s to a
//	ran a/s 1 2 3                          what ran, in order of time
//	remembers a/s 1 2 3                    the state in the end
//	died a
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
