package durable

import (
	"time"
	"unsafe"
)

// A clock is the clock of one process. As with those of package time, the time between two readings is true, and
// the wall time may differ from that of other processes and jump, also back.
type clock struct {
	w    *world
	skew time.Duration // of the wall time
}

func (c *clock) now() time.Time {
	return monotonic(c.w.now, c.w.clock().Add(c.skew))
}

// rawTime is a time.Time with a monotonic reading, which package time makes of its own clock alone.
type rawTime struct {
	wall uint64 // 1, seconds in 33 bits, nanoseconds in 30 bits
	ext  int64  // the monotonic reading, in nanoseconds
	loc  *time.Location
}

const (
	rawMonotonic = 1 << 63
	rawSeconds   = 30 // the lowest bit of the seconds
)

// rawEpoch is the Unix time 0 in the seconds of a rawTime.
var rawEpoch = func() int64 {
	now := time.Now()
	raw := *(*rawTime)(unsafe.Pointer(&now))
	return int64(raw.wall<<1>>(rawSeconds+1)) - now.Unix()
}()

// monotonic returns the time with that monotonic reading and that wall time, which need not have anything
// to do with each other.
func monotonic(reading time.Duration, wall time.Time) time.Time {
	raw := rawTime{
		wall: rawMonotonic | uint64(wall.Unix()+rawEpoch)<<rawSeconds | uint64(wall.Nanosecond()),
		ext:  int64(reading) + 1, loc: time.Local,
	}
	return *(*time.Time)(unsafe.Pointer(&raw))
}
