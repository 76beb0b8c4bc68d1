package load

import (
	"errors"
	"testing"
	"time"
)

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
