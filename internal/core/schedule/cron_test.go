package schedule

import (
	"strings"
	"testing"
	"time"
)

const readable = "Mon 2006-01-02 15:04:05 -0700"

// mustCron parses a cron text.
func mustCron(t testing.TB, text, zone string) *Cron {
	t.Helper()
	c, err := ParseCron(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCronNext compares the due times that follow a local time with a list, one a line.
func TestCronNext(t *testing.T) {
	for _, tc := range []struct{ name, text, zone, after, want string }{
		{"minute", "* * * * *", "", "2026-01-01 00:00:30 +0000", `
			Thu 2026-01-01 00:01:00 +0000
			Thu 2026-01-01 00:02:00 +0000`},
		{"a due time is not its own next", "0 9 * * *", "", "2026-01-01 09:00:00 +0000", `
			Fri 2026-01-02 09:00:00 +0000`},
		{"weekdays", "0 9 * * 1-5", "Europe/Berlin", "2026-07-03 09:00:00 +0200", `
			Mon 2026-07-06 09:00:00 +0200
			Tue 2026-07-07 09:00:00 +0200`},
		{"lists, ranges and steps", "5,50-59/4 8-10/2 * * *", "", "2026-01-01 08:04:00 +0000", `
			Thu 2026-01-01 08:05:00 +0000
			Thu 2026-01-01 08:50:00 +0000
			Thu 2026-01-01 08:54:00 +0000
			Thu 2026-01-01 08:58:00 +0000
			Thu 2026-01-01 10:05:00 +0000`},
		{"names", "0 0 * FEB,dec Sat-Sun", "", "2026-02-22 00:00:00 +0000", `
			Sat 2026-02-28 00:00:00 +0000
			Sat 2026-12-05 00:00:00 +0000
			Sun 2026-12-06 00:00:00 +0000`},
		{"7 is Sunday", "0 0 * * 7", "", "2026-01-01 00:00:00 +0000", `
			Sun 2026-01-04 00:00:00 +0000`},
		{"0 is Sunday only", "0 0 * * 0-0", "", "2026-01-01 00:00:00 +0000", `
			Sun 2026-01-04 00:00:00 +0000
			Sun 2026-01-11 00:00:00 +0000`},
		{"either day field", "0 0 13 * fri", "", "2026-02-27 00:00:00 +0000", `
			Fri 2026-03-06 00:00:00 +0000
			Fri 2026-03-13 00:00:00 +0000
			Fri 2026-03-20 00:00:00 +0000
			Fri 2026-03-27 00:00:00 +0000
			Fri 2026-04-03 00:00:00 +0000
			Fri 2026-04-10 00:00:00 +0000
			Mon 2026-04-13 00:00:00 +0000`},
		{"a star in a day field: both", "0 0 */10 * fri", "", "2026-01-01 00:00:00 +0000", `
			Fri 2026-05-01 00:00:00 +0000
			Fri 2026-07-31 00:00:00 +0000`},
		{"the 31st", "0 0 31 * *", "", "2026-01-31 00:00:00 +0000", `
			Tue 2026-03-31 00:00:00 +0000
			Sun 2026-05-31 00:00:00 +0000`},
		{"29 February, over 2100", "0 0 29 2 *", "", "2096-02-29 00:00:00 +0000", `
			Fri 2104-02-29 00:00:00 +0000`},

		{"skipped: at the jump", "30 2 * * *", "Europe/Berlin", "2026-03-28 02:30:00 +0100", `
			Sun 2026-03-29 03:00:00 +0200
			Mon 2026-03-30 02:30:00 +0200`},
		{"skipped with the jump's own time: once", "0,30 2,3 * * *", "Europe/Berlin", "2026-03-29 01:59:00 +0100", `
			Sun 2026-03-29 03:00:00 +0200
			Sun 2026-03-29 03:30:00 +0200`},
		{"repeated: the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24 02:30:00 +0200", `
			Sun 2026-10-25 02:30:00 +0200
			Mon 2026-10-26 02:30:00 +0100`},
		{"repeated: from between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25 02:10:00 +0100", `
			Mon 2026-10-26 02:30:00 +0100`},
		{"repeated: the end of the hour comes once", "0 1,2,3 * * *", "Europe/Berlin", "2026-10-25 00:30:00 +0200", `
			Sun 2026-10-25 01:00:00 +0200
			Sun 2026-10-25 02:00:00 +0200
			Sun 2026-10-25 03:00:00 +0100`},
		{"interval over a jump forward", "*/30 * * * *", "Europe/Berlin", "2026-03-29 01:00:00 +0100", `
			Sun 2026-03-29 01:30:00 +0100
			Sun 2026-03-29 03:00:00 +0200`},
		{"interval over a jump back", "*/30 * * * *", "Europe/Berlin", "2026-10-25 02:00:00 +0200", `
			Sun 2026-10-25 02:30:00 +0200
			Sun 2026-10-25 02:00:00 +0100
			Sun 2026-10-25 02:30:00 +0100
			Sun 2026-10-25 03:00:00 +0100`},
		{"each hour over a jump back", "0 * * * *", "America/New_York", "2026-11-01 00:00:00 -0400", `
			Sun 2026-11-01 01:00:00 -0400
			Sun 2026-11-01 01:00:00 -0500
			Sun 2026-11-01 02:00:00 -0500`},
		{"every other hour omits a skipped one", "0 */2 * * *", "Europe/Berlin", "2026-03-29 00:00:00 +0100", `
			Sun 2026-03-29 04:00:00 +0200`},
		{"skipped midnight", "0 0 * * *", "America/Sao_Paulo", "2018-11-03 00:00:00 -0300", `
			Sun 2018-11-04 01:00:00 -0200
			Mon 2018-11-05 00:00:00 -0200`},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 02:15:00 +1030", `
			Sun 2026-10-04 02:30:00 +1100
			Mon 2026-10-05 02:15:00 +1100`},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04 01:45:00 +1100", `
			Sun 2026-04-05 01:45:00 +1100
			Mon 2026-04-06 01:45:00 +1030`},
		{"two hours", "30 1 * * *", "Antarctica/Troll", "2026-03-28 01:30:00 +0000", `
			Sun 2026-03-29 03:00:00 +0200
			Mon 2026-03-30 01:30:00 +0200`},
		{"a day that a zone skipped", "0 12 30 * *", "Pacific/Apia", "2011-11-30 12:00:00 -1000", `
			Sat 2011-12-31 00:00:00 +1400
			Mon 2012-01-30 12:00:00 +1400`},
		{"before 1970, offset of seconds", "0 0 1 * *", "Europe/Amsterdam", "1936-12-31 23:59:50 +0020", `
			Fri 1937-01-01 00:00:00 +0019`},
		{"negative seconds", "30 * * * *", "", "1960-01-01 00:29:59 +0000", `
			Fri 1960-01-01 00:30:00 +0000`},
	} {
		c := mustCron(t, tc.text, tc.zone)
		at, err := time.Parse("2006-01-02 15:04:05 -0700", tc.after)
		if err != nil {
			t.Fatal(err)
		}
		for want := range strings.Lines(strings.TrimSpace(tc.want)) {
			next, ok := c.Next(at)
			if got := next.Format(readable); !ok || got != strings.TrimSpace(want) {
				t.Errorf("%s: %q in %s after %s: got %s (%v), want %s",
					tc.name, tc.text, tc.zone, at.In(c.zone).Format(readable), got, ok, strings.TrimSpace(want))
			}
			at = next
		}
	}
}

func TestCronErrors(t *testing.T) {
	for _, tc := range []struct{ text, zone, want string }{
		{"* * * *", "", `4 fields: want five: minute, hour, day of month, month, day of week`},
		{"@daily", "", `1 fields: want five`},
		{"0 * * * * *", "", `6 fields: want five`},
		{"60 * * * *", "", `minute: "60": want 0 to 59, such as 0,30 or */15`},
		{"+5 * * * *", "", `minute: "+5": want`},
		{"* 24 * * *", "", `hour: "24": want 0 to 23`},
		{"* * 0 * *", "", `day of month: "0": want 1 to 31`},
		{"* * L * *", "", `day of month: "L": want 1 to 31`},
		{"* * * janu *", "", `month: "janu": want 1 to 12 or a name`},
		{"* * * * 8", "", `day of week: "8": want 0 to 7 or a name`},
		{"1,,2 * * * *", "", `minute: "": want`},
		{"9-5 * * * *", "", `minute: range "9-5" goes backwards: want two ranges, separated by a comma`},
		{"* * * * sat-mon", "", `day of week: range "sat-mon" goes backwards`},
		{"* * * * 1-0", "", `day of week: range "1-0" goes backwards`},
		{"5/15 * * * *", "", `minute: "5/15": a step needs a range: want 5-59/15`},
		{"*/0 * * * *", "", `minute: "*/0": step "0": want 1 to 59`},
		{"*/90 * * * *", "", `minute: "*/90": step "90": want 1 to 59`},
		{"0 0 30 2 *", "", `day of month: 30 never comes in month 2`},
		{"0 0 31 2,apr,6-6,9 *", "", `day of month: 31 never comes in month 2,apr,6-6,9`},
		{strings.Repeat("1", 600), "", `600 bytes: want at most 512`},
		{"* * * * *", "Local", `zone "Local": the zone depends on the machine`},
		{"* * * * *", "Berlin", `zone "Berlin": unknown time zone Berlin: want a name such as Europe/Berlin`},
	} {
		if _, err := ParseCron(tc.text, tc.zone); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40q in %q: got %v, want %s", tc.text, tc.zone, err, tc.want)
		}
	}
}

func TestCronEnds(t *testing.T) {
	c := mustCron(t, "0 0 29 2 *", "")
	if next, ok := c.Next(time.Date(9996, 2, 29, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("got %v, want none: times end with the year 9999", next)
	}
	if next, ok := new(Cron).Next(time.Time{}); ok {
		t.Errorf("zero Cron: got %v, want none", next)
	}
}

// TestCronYear counts the due times of a year, in zones that set their clocks.
func TestCronYear(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(1, 0, 0)
	for _, zone := range zones {
		for _, tc := range []struct {
			text  string
			count int
		}{
			{"0 * * * *", 365 * 24},
			{"*/15 * * * *", 365 * 24 * 4},
			{"30 2 * * *", 365},
			{"0 0 * * *", 365},
			{"15 1 * * *", 365},
			{"45 23 1 * *", 12},
		} {
			c := mustCron(t, tc.text, zone)
			n := 0
			for at, ok := c.Next(from); ok && at.Before(until); at, ok = c.Next(at) {
				n++
			}
			// A local time may fall out of the year of UTC, and clocks may shift by half hours.
			if n < tc.count-2 || n > tc.count+2 {
				t.Errorf("%q in %s: %d times in 2026, want %d", tc.text, zone, n, tc.count)
			}
		}
	}
}

func BenchmarkCronNext(b *testing.B) {
	for _, text := range []string{"* * * * *", "0 9 * * 1-5", "0 0 29 2 */6"} {
		b.Run(text, func(b *testing.B) {
			c := mustCron(b, text, "Europe/Berlin")
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				c.Next(at)
			}
		})
	}
}
