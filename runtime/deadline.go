package shard

import (
	"context"
	"time"
	"unsafe"

	"github.com/shardgen/shardgen/runtime/call"
)

var (
	errTooLarge = call.ErrTooLarge
	errFull     = call.ErrFull
)

// deadline is the end of a call: its context's, or the time-out where that has
// none or a later one. Time-outs are watched by the pending table's sweep, which
// costs a call nothing, and by a timer where the sweep is too coarse.
type deadline struct {
	ctx   context.Context
	at    time.Time
	own   bool          // at is ours, not the context's
	fresh time.Duration // what remained when it was made; 0: not known any more
	timer *time.Timer
}

// sweepPending is how often calls are looked at whose time is over.
const sweepPending = 50 * time.Millisecond

// newDeadline takes the sweep into account only if it runs.
func newDeadline(ctx context.Context, option, def time.Duration, sweeping bool) deadline {
	at, ok := ctx.Deadline()
	timeout := option
	if timeout == 0 && !ok {
		timeout = def
	}
	if timeout > 0 {
		if own := time.Now().Add(timeout); !ok || own.Before(at) {
			d := deadline{ctx: ctx, at: own, own: true, fresh: timeout}
			if timeout < 20*sweepPending || !sweeping {
				d.timer = time.NewTimer(timeout)
			}
			return d
		}
	}
	return deadline{ctx: ctx, at: at}
}

// swept is when the sweep ends the call; 0 when a timer or the context does.
func (d *deadline) swept(base time.Time) int64 {
	if !d.own || d.timer != nil {
		return 0
	}
	return int64(d.at.Sub(base))
}

// over is filled when a short time-out of the call's own is over; nil when
// something else ends it.
func (d *deadline) over() <-chan time.Time {
	if d.timer == nil {
		return nil
	}
	return d.timer.C
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// micros is what remains, for the wire; at least 1.
func (d *deadline) micros() uint64 {
	if left := d.fresh; left > 0 { // asked at once the first time: no need to read the clock again
		d.fresh = 0
		return uint64(max(left.Microseconds(), 1))
	}
	return uint64(max(time.Until(d.at).Microseconds(), 1))
}

// sleep waits for t and reports whether there is time left.
func (d *deadline) sleep(t time.Duration) bool {
	if time.Until(d.at) <= t {
		return false
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// bytesOf is the string's bytes without a copy; they must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
