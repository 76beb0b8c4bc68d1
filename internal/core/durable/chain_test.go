package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
)

// TestChain checks which appends count, in the order of the log. An incarnation stands for a home.
func TestChain(t *testing.T) {
	claim := func(epoch, home, number uint64) *wire.DurableAppend {
		return &wire.DurableAppend{Epoch: epoch, Incarnation: home, Claim: number, Entries: []*wire.DurableEntry{claimEntry()}}
	}
	commit := func(epoch, home, number, counter uint64) *wire.DurableAppend {
		return &wire.DurableAppend{Epoch: epoch, Incarnation: home, Claim: number, Counter: counter, Entries: []*wire.DurableEntry{
			{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}},
		}}
	}
	type step struct {
		append *wire.DurableAppend
		counts bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a claim and its commits", []step{{claim(1, 1, 1), true}, {commit(1, 1, 1, 1), true}, {commit(1, 1, 1, 2), true}}},
		{"the log is read from a commit on", []step{{commit(3, 1, 2, 9), true}, {commit(3, 1, 2, 10), true}, {commit(2, 2, 2, 11), false}}},
		{"a higher epoch ends the older home", []step{{claim(1, 1, 1), true}, {claim(2, 2, 1), true}, {commit(1, 1, 1, 1), false}, {commit(2, 2, 1, 1), true}}},
		{"a claim of a lower epoch is void", []step{{claim(2, 2, 1), true}, {claim(1, 1, 1), false}, {commit(1, 1, 1, 1), false}, {commit(2, 2, 1, 1), true}}},
		{"its own epoch by another is void", []step{{claim(2, 2, 1), true}, {claim(2, 1, 2), false}, {commit(2, 1, 2, 1), false}}},
		{"a home that claims again", []step{
			{claim(1, 1, 1), true},
			{commit(1, 1, 1, 1), true},
			{claim(1, 1, 2), true},
			{commit(1, 1, 1, 2), false},
			{commit(1, 1, 2, 1), false},
			{commit(1, 1, 2, 2), true},
		}},
		{"its older claim comes late", []step{{claim(1, 1, 2), true}, {claim(1, 1, 1), false}, {claim(1, 1, 2), false}, {commit(1, 1, 1, 1), false}, {commit(1, 1, 2, 1), true}}},
		{"one that counted already", []step{{claim(1, 1, 1), true}, {commit(1, 1, 1, 5), true}, {commit(1, 1, 1, 5), false}, {commit(1, 1, 1, 6), true}}},
		{"the same home under another epoch", []step{
			{claim(1, 1, 1), true}, {commit(1, 1, 1, 5), true}, {claim(2, 1, 1), true}, {commit(1, 1, 1, 6), false}, {commit(2, 1, 1, 1), true},
		}},
	} {
		var reader chain
		for i, s := range c.steps {
			if got := reader.add(s.append); got != s.counts {
				t.Errorf("%s: append %d counts: %v, want %v (%v)", c.name, i, got, s.counts, &reader)
			}
		}
	}
}
