package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		answers [][]answer
		totals  []int64
		want    string
	}{
		{"nothing called", nil, []int64{0, 0}, "[]"},
		{"two callers", [][]answer{{{0, 1}, {1, 2}, {0, 3}}, {{1, 1}, {0, 2}}}, []int64{3, 2}, "[]"},
		{"total unknown", [][]answer{{{0, 1}}}, []int64{-1}, "[]"},
		{"lost at the end", [][]answer{{{0, 1}, {0, 2}}}, []int64{1}, "[counter-0: its total is 1 after 2 answers]"},
		{"called once more than answered", [][]answer{{{0, 1}}}, []int64{2}, "[counter-0: its total is 2 after 1 answers]"},
		{"gap", [][]answer{{{0, 1}, {0, 3}}}, []int64{3}, "[counter-0: its sorted answers have 3 where 2 belongs]"},
		{"state lost", [][]answer{{{0, 1}}, {{0, 1}}}, []int64{2}, "[counter-0: its sorted answers have 1 where 2 belongs]"},
		{"caller goes back", [][]answer{{{0, 2}, {0, 1}}}, []int64{2}, "[counter-0: one caller got 1 after 2]"},
		{"one of three", [][]answer{{{1, 2}, {0, 1}, {2, 1}}}, []int64{1, 2, 1}, "[counter-1: its sorted answers have 2 where 1 belongs]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(check(tt.answers, tt.totals)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPace checks that pace holds back the last call until the members have changed.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{})
		p := &pace{interval: time.Microsecond, changed: changed, total: 4001}
		begin := time.Now()
		for range 2001 {
			if !p.take(t.Context()) {
				t.Fatal("no more calls")
			}
		}
		if got := time.Since(begin); got < 1300*time.Millisecond || got > 1500*time.Millisecond {
			t.Errorf("half of the calls took %v, want 2s times ln 2", got)
		}
		for range 1999 {
			p.take(t.Context())
		}
		last := make(chan bool)
		go func() { last <- p.take(t.Context()) }()
		synctest.Wait()
		select {
		case <-last:
			t.Error("the last call went before the members changed")
		default:
		}
		close(changed)
		if !<-last {
			t.Error("the last call did not go")
		}
		if p.take(t.Context()) {
			t.Error("a call more than there are")
		}
	})
}
