package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const minute = time.Minute

// base is a Monday.
var base = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// after returns base plus a duration, and base for 0; "never" is the zero time.
func after(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "never" {
		return time.Time{}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return base.Add(d)
}

func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Schedule
		want string
	}{
		{"once", Schedule{Kind: KindOnce, Due: base.Add(time.Hour)}, "1h"},
		{"once, passed", Schedule{Kind: KindOnce, Due: base.Add(-time.Hour)}, "-1h"},
		{"once with jitter", Schedule{Kind: KindOnce, Due: base, Jitter: 5 * time.Second}, "5s"},
		{"every, from now", Schedule{Kind: KindEvery, Period: 7 * minute}, "7m"},
		{"every, from now, with jitter", Schedule{Kind: KindEvery, Period: 7 * minute, Jitter: time.Second}, "7m1s"},
		{"every, started", Schedule{Kind: KindEvery, Period: 7 * minute, Due: base.Add(-10 * minute)}, "4m"},
		{"every, on the grid", Schedule{Kind: KindEvery, Period: 5 * minute, Due: base.Add(-10 * minute)}, "5m"},
		{"every, in the future", Schedule{Kind: KindEvery, Period: 5 * minute, Due: base.Add(12 * minute)}, "17m"},
		{"cron", Schedule{Kind: KindCron, Cron: "0 9 * * *", Zone: "Europe/Berlin"}, "19h"},
		{"cron with jitter", Schedule{Kind: KindCron, Cron: "0 9 * * *", Zone: "Europe/Berlin", Jitter: minute}, "19h1m"},
	} {
		got, err := tc.s.First(base)
		if want := after(t, tc.want); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v; want %v", tc.name, got, err, want)
		}
	}
}

func TestNext(t *testing.T) {
	every := Schedule{Kind: KindEvery, Period: 10 * minute}
	catchUp, skip, both := every, every, every
	catchUp.CatchUp = true
	skip.SkipLate = 3 * minute
	both.CatchUp, both.SkipLate = true, 25*minute
	cron := Schedule{Kind: KindCron, Cron: "*/10 * * * *"}
	cronCatchUp := cron
	cronCatchUp.CatchUp = true
	yearly := Schedule{Kind: KindCron, Cron: "* * 1 1 *", CatchUp: true}
	for _, tc := range []struct {
		name           string
		s              Schedule
		due, now, want string
		missed         int
	}{
		{"once", Schedule{Kind: KindOnce, Due: base}, "0s", "1h", "never", 0},
		{"every, in time", every, "0s", "1s", "10m", 0},
		{"every, early", every, "0s", "-1m", "10m", 0},
		{"every, before the next", every, "0s", "9m59s", "10m", 0},
		{"every, at the next", every, "0s", "10m", "20m", 1},
		{"every, late: one for all", every, "0s", "35m", "40m", 3},
		{"catch up: the next of the past", catchUp, "0s", "35m", "10m", 0},
		{"catch up: at most 999 more", catchUp, "0s", "20000m", "10020m", 1001},
		{"skip late, fired", skip, "0s", "2m", "10m", 0},
		{"skip late, dropped", skip, "0s", "5m", "10m", 0},
		{"skip late, dropped, one recent", skip, "0s", "42m", "40m", 3},
		{"skip late, dropped, none recent", skip, "0s", "44m", "50m", 4},
		{"skip late and catch up", both, "0s", "42m", "20m", 1},
		{"skip late and catch up, fired", both, "0s", "22m", "10m", 0},
		{"cron, in time", cron, "0s", "1s", "10m", 0},
		{"cron, late", cron, "0s", "35m", "40m", 3},
		{"cron, a bounded count", cron, "0s", "200000m", "200010m", MaxCounted},
		{"cron, catch up", cronCatchUp, "0s", "35m", "10m", 0},
		{"cron, catch up: at most 999 more", cronCatchUp, "0s", "20000m", "10020m", 1001},
		// From 1 January 0:00 on: 1,439 more on that day, of which 999 are caught up.
		{"cron, catch up over a long pause", yearly, "5124h", "9000h", "5124h441m", 440},
	} {
		next, missed, err := tc.s.Next(after(t, tc.due), after(t, tc.now))
		if want := after(t, tc.want); err != nil || !next.Equal(want) || missed != tc.missed {
			t.Errorf("%s: got %v, missed %d, %v; want %v, missed %d", tc.name, next, missed, err, want, tc.missed)
		}
	}
}

// TestNextAgainstLoop compares Next with a loop over the due times.
func TestNextAgainstLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := Schedule{
			Kind: KindEvery, Period: time.Second + time.Duration(r.IntN(3_600_000))*time.Millisecond,
			Jitter: time.Duration(r.IntN(100_000)) * time.Millisecond, CatchUp: r.IntN(2) == 0,
		}
		if r.IntN(4) == 0 {
			s.Kind, s.Cron, s.Zone = KindCron, "*/20 1-4 * * *", zones[r.IntN(len(zones))]
		}
		if r.IntN(2) == 0 {
			s.SkipLate = time.Duration(r.IntN(3_600_000)) * time.Millisecond
		}
		now := base.Add(time.Duration(r.Int64N(int64(200 * 24 * time.Hour))))
		first, err := s.First(now)
		if err != nil {
			t.Fatal(err)
		}
		if !first.After(now) {
			t.Fatalf("%+v: First(%v): got %v, want a later time", s, now, first)
		}
		late := time.Duration(r.Int64N(int64(s.Period) * []int64{1, 20, 3000}[r.IntN(3)]))
		checkNext(t, s, first, first.Add(late))
	}
}

// TestEveryKeepsItsGrid checks that due times stay on the grid of the start, however late they are
// handled, and that each one is fired or counted as missed.
func TestEveryKeepsItsGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s := Schedule{Kind: KindEvery, Period: time.Second + time.Duration(r.IntN(100_000))*time.Millisecond, Due: base}
		due, err := s.First(base)
		if err != nil {
			t.Fatal(err)
		}
		cells := int64(1)
		for range 50 {
			next, missed, err := s.Next(due, due.Add(time.Duration(r.Int64N(int64(5*s.Period)))))
			if err != nil {
				t.Fatal(err)
			}
			cells += int64(missed) + 1
			if want := base.Add(time.Duration(cells) * s.Period); !next.Equal(want) {
				t.Fatalf("period %v: got %v, want %v", s.Period, next, want)
			}
			due = next
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{}, "no due time (add shard.In"},
		{Schedule{Kind: KindOnce, Due: time.UnixMilli(math.MaxInt64)}, "want at most the year 9999"},
		{Schedule{Kind: 9}, "unknown kind 9"},
		{Schedule{Kind: KindOnce}, "no due time"},
		{Schedule{Kind: KindEvery}, "period: 0s: want at least 1s"},
		{Schedule{Kind: KindEvery, Period: 999 * time.Millisecond}, "period: 999ms: want at least 1s"},
		{Schedule{Kind: KindEvery, Period: time.Second + 1}, "period: 1.000000001s: want whole milliseconds"},
		{Schedule{Kind: KindEvery, Period: minute, Jitter: -1}, "jitter: -1ns: want at least 0s"},
		{Schedule{Kind: KindEvery, Period: minute, SkipLate: -minute}, "skip late: -1m0s: want at least 0s"},
		{Schedule{Kind: KindCron, Cron: "0 0 30 2 *"}, `schedule: cron: "0 0 30 2 *": day of month: 30 never comes in month 2`},
		{Schedule{Kind: KindCron, Cron: "* * * * *", Zone: "Mars/Olympus"}, `zone "Mars/Olympus": unknown time zone`},
	} {
		err := tc.s.Check()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %s", tc.s, err, tc.want)
		}
		if _, _, err := tc.s.Next(base, base); err == nil {
			t.Errorf("%+v: Next: got no error", tc.s)
		}
	}
}

// TestSpread checks the bounds of jitter, and that it differs between entities and names.
func TestSpread(t *testing.T) {
	const limit = 10 * time.Second
	buckets := map[time.Duration]int{}
	for i := range 10_000 {
		d := Spread(limit, fmt.Sprint("entity-", i), "Report")
		if d < 0 || d >= limit || d%time.Millisecond != 0 {
			t.Fatalf("got %v, want whole milliseconds in [0, %v)", d, limit)
		}
		buckets[d/time.Second]++
	}
	for s := range time.Duration(10) {
		if n := buckets[s]; n < 850 || n > 1150 {
			t.Errorf("%d of 10,000 in second %d, want about 1,000", n, s)
		}
	}
	// The delay is stored, but a changed function would move reminders that are set again.
	if got, want := Spread(limit, "a", "b"), 7074*time.Millisecond; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if Spread(limit, "a", "bc") == Spread(limit, "ab", "c") {
		t.Error("one delay for other names")
	}
	if got := Spread(0, "a", "b"); got != 0 {
		t.Errorf("got %v, want 0", got)
	}
}
