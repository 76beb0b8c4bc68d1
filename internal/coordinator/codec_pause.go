package coordinator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

func pauseToWire(p Pause) *wire.CoordinatorPause {
	return &wire.CoordinatorPause{Seq: uint64(p.Seq), On: p.On, By: p.By, At: nanosOf(p.At)}
}

// nanosOf is a time as nanoseconds after 1970; 0 for the zero time.
func nanosOf(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func timeOf(nanos uint64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nanos))
}
