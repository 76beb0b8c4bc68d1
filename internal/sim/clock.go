package sim

import "time"

// A clock is a node's own: it goes a little too fast or too slow, and its zero
// is anywhere. Cores see only times, so the wall clock cannot matter. One that is
// slow goes back by ppm nanoseconds at each millisecond, which no core may mind.
type clock struct {
	ppm    int
	offset time.Duration
}

var epoch = time.Unix(1_000_000_000, 0)

// local is the clock's reading at a virtual time.
func (c clock) local(t time.Duration) time.Time {
	return epoch.Add(c.offset + t + t/1_000_000*time.Duration(c.ppm))
}

// virtual returns the virtual time, now or later, at which the clock shows at, or a few microseconds more.
func (c clock) virtual(at time.Time, now time.Duration) time.Duration {
	d := at.Sub(epoch) - c.offset
	t := max(now, d-d/1_000_000*time.Duration(c.ppm))
	for {
		missing := at.Sub(c.local(t))
		if missing <= 0 {
			break
		}
		t += max(missing-missing/1_000_000*time.Duration(max(c.ppm, 0))-missing/100, 1) // not past it
	}
	return t
}
