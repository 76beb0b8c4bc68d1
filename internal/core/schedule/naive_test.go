package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// zones have clocks that are set forward and back by half an hour, one, two and three hours, at
// midnight and at other times, or never.
var zones = []string{
	"", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe",
	"Antarctica/Troll", "Africa/Casablanca", "Asia/Beirut", "America/St_Johns", "Asia/Kathmandu",
	"Pacific/Apia", "Antarctica/Casey",
}

// A naive is a cron text that is read by trying: a field matches a value if one of its parts lists
// it.
type naive struct {
	fields []string
	values [len(fields)][60]bool
	zone   *time.Location
}

func newNaive(text string, zone *time.Location) *naive {
	n := &naive{fields: strings.Fields(text), zone: zone}
	for i := range n.values {
		for v := range n.values[i] {
			n.values[i][v] = n.listed(i, v)
		}
	}
	return n
}

func (n *naive) listed(field, value int) bool {
	for part := range strings.SplitSeq(n.fields[field], ",") {
		var low, high, step int
		low, high = fields[field].low, fields[field].high
		step = 1
		span, by, stepped := strings.Cut(part, "/")
		if stepped {
			fmt.Sscan(by, &step)
		}
		if span != "*" {
			if k, _ := fmt.Sscanf(span, "%d-%d", &low, &high); k == 1 {
				high = low
			}
		}
		for v := low; v <= high; v += step {
			if v == value || field == 4 && v == 7 && value == 0 {
				return true
			}
		}
	}
	return false
}

// matches reports whether a reading of the local clock matches. The time is in UTC with that
// reading.
func (n *naive) matches(local time.Time) bool {
	day, weekday := n.values[2][local.Day()], n.values[4][local.Weekday()]
	days := day || weekday
	if strings.HasPrefix(n.fields[2], "*") || strings.HasPrefix(n.fields[4], "*") {
		days = day && weekday
	}
	return days && n.values[0][local.Minute()] && n.values[1][local.Hour()] && n.values[3][local.Month()]
}

func (n *naive) local(at time.Time) time.Time {
	_, offset := at.In(n.zone).Zone()
	return at.Add(time.Duration(offset) * time.Second).UTC()
}

// next returns the first matching minute after a time, by trying each. It returns zero if none of
// so many minutes matches.
func (n *naive) next(after time.Time, minutes int) time.Time {
	interval := strings.HasPrefix(n.fields[0], "*") || strings.HasPrefix(n.fields[1], "*")
	after = after.Truncate(time.Minute)
	at := after.Add(-26 * time.Hour)
	reached := n.local(at)
	for range minutes + 26*60 {
		at = at.Add(time.Minute)
		local := n.local(at)
		due := interval && n.matches(local)
		for reached.Before(local) {
			reached = reached.Add(time.Minute)
			due = due || !interval && at.After(after) && n.matches(reached)
		}
		if due && at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// compare checks Next against naive from a time on, and returns the number of due times.
func compare(t *testing.T, text, zone string, at time.Time, rounds int) int {
	t.Helper()
	const minutes = 3 * 24 * 60
	c := mustCron(t, text, zone)
	n := newNaive(text, c.zone)
	for i := range rounds {
		want := n.next(at, minutes)
		got, ok := c.Next(at)
		if !ok || !got.After(at) {
			t.Fatalf("%q in %s after %v: got %v (%v), want a later time", text, zone, at, got, ok)
		}
		if want.IsZero() {
			if got.Before(at.Add(minutes*time.Minute - time.Minute)) {
				t.Fatalf("%q in %s after %v: got %v, want none in 3 days", text, zone, at, got)
			}
			return i
		}
		if !got.Equal(want) {
			t.Fatalf("%q in %s after %v: got %v, want %v", text, zone, at.In(c.zone), got, want.In(c.zone))
		}
		at = got
	}
	return rounds
}

// randomField returns a valid field.
func randomField(r *rand.Rand, i int) string {
	f := fields[i]
	high := f.high
	part := func() string {
		low := f.low + r.IntN(high-f.low+1)
		switch r.IntN(4) {
		case 0:
			return fmt.Sprintf("%d-%d", low, low+r.IntN(high-low+1))
		case 1:
			if high-low > 0 {
				return fmt.Sprintf("%d-%d/%d", low, high, 1+r.IntN(high-low))
			}
		}
		return fmt.Sprint(low)
	}
	switch r.IntN(5) {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", 1+r.IntN(high-f.low))
	case 3:
		return part()
	}
	return part() + "," + part()
}

func randomText(r *rand.Rand) string {
	var parts []string
	for i := range fields {
		parts = append(parts, randomField(r, i))
	}
	if r.IntN(2) == 0 { // most dates match
		parts[2], parts[3] = "*", "*"
	}
	if r.IntN(3) == 0 { // hours of changes
		parts[1] = fmt.Sprintf("0-%d", 1+r.IntN(4))
	}
	return strings.Join(parts, " ")
}

// changes returns the times from 2010 to 2030 at which a zone sets its clock.
func changes(loc *time.Location) []time.Time {
	var at []time.Time
	for t := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC); t.Year() < 2030; {
		_, end := t.In(loc).ZoneBounds()
		if end.IsZero() {
			break
		}
		at = append(at, end)
		t = end
	}
	return append(at, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
}

func TestCronAgainstNaive(t *testing.T) {
	runs := 150
	if testing.Short() {
		runs = 30
	}
	due := 0
	for _, zone := range zones {
		r := rand.New(rand.NewPCG(1, uint64(len(zone))))
		for range runs {
			text := randomText(r)
			c, err := ParseCron(text, zone)
			if err != nil {
				if !strings.Contains(err.Error(), "never comes") {
					t.Fatal(err)
				}
				continue
			}
			at := changes(c.zone)
			start := at[r.IntN(len(at))].Add(-time.Duration(r.IntN(6*3600)) * time.Second)
			due += compare(t, text, zone, start, 8)
		}
	}
	if due < runs*len(zones) {
		t.Errorf("%d due times compared, want at least %d", due, runs*len(zones))
	}
}

// FuzzParseCron checks that any text is refused or has due times that naive finds, too.
func FuzzParseCron(f *testing.F) {
	f.Add("0 9 * * 1-5", uint8(1), int64(1_774_742_400))
	f.Add("*/15 2,3 29 2 */2", uint8(4), int64(1_774_742_400))
	f.Add("5-50/7 * 1,31 jan-mar sat-sun", uint8(9), int64(-3_000_000))
	f.Fuzz(func(t *testing.T, text string, zone uint8, unix int64) {
		name := zones[int(zone)%len(zones)]
		c, err := ParseCron(text, name)
		if err != nil {
			return
		}
		at := time.Unix(unix%4_000_000_000, 0)
		if at.Year() < 1950 || strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' }) {
			if next, ok := c.Next(at); !ok || !next.After(at) {
				t.Fatalf("%q after %v: got %v (%v)", text, at, next, ok)
			}
			return // naive has neither names nor offsets of seconds
		}
		compare(t, text, name, at, 2)
	})
}

// FuzzNext checks the laws of Next for any schedule and times.
func FuzzNext(f *testing.F) {
	f.Add(uint8(2), int64(60_000), int64(1000), int64(0), true, int64(1_800_000_000_000), int64(7_200_000))
	f.Add(uint8(3), int64(0), int64(5), int64(600_000), false, int64(1_800_000_000_000), int64(1<<40))
	f.Fuzz(func(t *testing.T, kind uint8, period, jitter, skip int64, catchUp bool, due, late int64) {
		const day = 24 * 3_600_000
		ms := func(v, limit int64) time.Duration { return time.Duration(max(v, -v-1)%limit) * time.Millisecond }
		s := Schedule{
			Kind: Kind(kind % 5), Period: ms(period, day), Cron: "*/7 3-5 * * *", Zone: "America/New_York",
			Jitter: ms(jitter, day), SkipLate: ms(skip, 10*day), CatchUp: catchUp,
		}
		start := time.UnixMilli(due % 4_000_000_000_000)
		first, err := s.First(start)
		if (err == nil) != (s.Check() == nil) {
			t.Fatalf("%+v: First: %v, Check: %v", s, err, s.Check())
		}
		if err != nil {
			return
		}
		checkNext(t, s, first, first.Add(ms(late, 20*day)))
	})
}

// checkNext compares Next with a plain loop over the due times.
func checkNext(t *testing.T, s Schedule, due, now time.Time) {
	t.Helper()
	next, missed, err := s.Next(due, now)
	if err != nil {
		t.Fatal(err)
	}
	plain := s
	plain.CatchUp, plain.SkipLate = false, 0
	var all []time.Time // after due, up to the first one after now
	for at := due; len(all) == 0 || !at.After(now); all = append(all, at) {
		if at, _, err = plain.Next(at, at); err != nil || at.IsZero() {
			t.Fatalf("%+v: got %v, %v", s, at, err)
		}
		if len(all) > 2_000_000 {
			t.Skip("too many")
		}
	}
	want := len(all) - 1 // the first one after now
	if s.CatchUp || s.Skip(due, now) {
		want = slices.IndexFunc(all, func(at time.Time) bool { return !s.Skip(at, now) })
	}
	if s.CatchUp {
		want = max(want, len(all)-MaxCatchUp)
	}
	counted := want
	if s.Kind == KindCron {
		counted = min(counted, MaxCounted)
	}
	if !next.Equal(all[want]) || missed != counted {
		t.Errorf("%+v: Next(%v, %v): got %v, missed %d; want %v, missed %d", s, due, now, next, missed, all[want], counted)
	}
}
