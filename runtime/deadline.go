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
// none. The timer is made only when somebody waits, and only in the second case.
type deadline struct {
	ctx   context.Context
	at    time.Time
	own   bool // at is ours, not the context's
	timer *time.Timer
}

func newDeadline(ctx context.Context, option, def time.Duration) *deadline {
	d := &deadline{ctx: ctx}
	at, ok := ctx.Deadline()
	timeout := option
	if timeout == 0 && !ok {
		timeout = def
	}
	if timeout > 0 {
		if own := time.Now().Add(timeout); !ok || own.Before(at) {
			d.at, d.own = own, true
			return d
		}
	}
	d.at = at
	return d
}

// over is closed or filled when the call's own time is over; nil when only the
// context ends it.
func (d *deadline) over() <-chan time.Time {
	if !d.own {
		return nil
	}
	if d.timer == nil {
		d.timer = time.NewTimer(time.Until(d.at))
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
