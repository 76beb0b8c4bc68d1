package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for containers without the zones' rules
)

// MaxCron bounds a cron text, in bytes. Five fields that list all their values fit.
const MaxCron = 512

// A field describes one field of a cron text.
type field struct {
	name      string
	low, high int
	names     []string // names of the values from low on
	hint      string
}

var fields = [5]field{
	{name: "minute", low: 0, high: 59, hint: "0 to 59, such as 0,30 or */15"},
	{name: "hour", low: 0, high: 23, hint: "0 to 23, such as 9-17 or */6"},
	{name: "day of month", low: 1, high: 31, hint: "1 to 31, such as 1,15 or *"},
	{
		name: "month", low: 1, high: 12, hint: "1 to 12 or a name, such as jan or 6-8",
		names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
	},
	{
		name: "day of week", low: 0, high: 7, hint: "0 to 7 or a name, such as mon-fri or 0",
		names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
	},
}

// ParseCron reads a cron text of five fields; the package comment describes it. The zone is a name
// of the IANA database such as "Europe/Berlin"; "" is UTC. A text without any due time is an error.
func ParseCron(text, zone string) (*Cron, error) {
	c, err := parseCron(text)
	if err != nil {
		return nil, fmt.Errorf("cron: %q: %w", text, err)
	}
	if c.zone, err = parseZone(zone); err != nil {
		return nil, fmt.Errorf("cron: zone %q: %w", zone, err)
	}
	return c, nil
}

func parseZone(zone string) (*time.Location, error) {
	if zone == "Local" {
		return nil, fmt.Errorf("the zone depends on the machine: want a name such as Europe/Berlin")
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("%w: want a name such as Europe/Berlin", err)
	}
	return loc, nil
}

func parseCron(text string) (*Cron, error) {
	if len(text) > MaxCron {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(text), MaxCron)
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return nil, fmt.Errorf("%d fields: want five: minute, hour, day of month, month, day of week", len(parts))
	}
	var c Cron
	for i, bits := range []*uint64{&c.minute, &c.hour, &c.day, &c.month, &c.weekday} {
		var err error
		if *bits, err = fields[i].parse(parts[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", fields[i].name, err)
		}
	}
	if c.weekday&(1<<7) != 0 {
		c.weekday = c.weekday&^(1<<7) | 1
	}
	c.interval = strings.HasPrefix(parts[0], "*") || strings.HasPrefix(parts[1], "*")
	c.bothDays = strings.HasPrefix(parts[2], "*") || strings.HasPrefix(parts[4], "*")
	if !c.comes() {
		return nil, fmt.Errorf("day of month: %s never comes in month %s", parts[2], parts[3])
	}
	return &c, nil
}

// comes reports whether any date matches. Each date falls on each weekday within 400 years, so only
// the day of the month can be impossible.
func (c *Cron) comes() bool {
	if !c.bothDays {
		return true
	}
	for month := time.January; month <= time.December; month++ {
		const leap = 2000
		for day := 1; day <= daysIn(leap, month); day++ {
			if c.month&(1<<month) != 0 && c.day&(1<<day) != 0 {
				return true
			}
		}
	}
	return false
}

// parse returns the values of a field, as bits.
func (f *field) parse(text string) (uint64, error) {
	var bits uint64
	for part := range strings.SplitSeq(text, ",") {
		values, step, stepped := strings.Cut(part, "/")
		low, high, err := f.span(values)
		if err != nil {
			return 0, err
		}
		by := 1
		if stepped {
			if by, err = f.step(step, low, high); err != nil {
				return 0, fmt.Errorf("%q: %w", part, err)
			}
		}
		for v := low; v <= high; v += by {
			bits |= 1 << v
		}
	}
	return bits, nil
}

// span parses one value, a range, or "*".
func (f *field) span(text string) (low, high int, err error) {
	if text == "*" {
		return f.low, f.high, nil
	}
	first, last, ranged := strings.Cut(text, "-")
	if low, err = f.value(first); err != nil || !ranged {
		return low, low, err
	}
	if high, err = f.value(last); err != nil {
		return 0, 0, err
	}
	if low > high && strings.EqualFold(last, "sun") {
		high = 7 // sat-sun ends the week
	}
	if low > high {
		return 0, 0, fmt.Errorf("range %q goes backwards: want two ranges, separated by a comma", text)
	}
	return low, high, nil
}

func (f *field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.low + i, nil
		}
	}
	v, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(v) < f.low || int(v) > f.high {
		return 0, fmt.Errorf("%q: want %s", text, f.hint)
	}
	return int(v), nil
}

// step parses what follows a slash. It refuses steps longer than the range: "*/90" as minutes is
// not every 90 minutes.
func (f *field) step(text string, low, high int) (int, error) {
	if low == high {
		return 0, fmt.Errorf("a step needs a range: want %d-%d/%s", low, f.high, text)
	}
	by, err := strconv.ParseUint(text, 10, 8)
	if err != nil || by < 1 || int(by) > high-low {
		return 0, fmt.Errorf("step %q: want 1 to %d", text, high-low)
	}
	return int(by), nil
}
