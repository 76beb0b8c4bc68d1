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
// costs a call nothing, not even a look at the clock, and by a timer where the
// sweep is too coarse.
type deadline struct {
	ctx     context.Context
	at      time.Time     // zero: timeout after the sweep that first sees the call
	timeout time.Duration // our own, not the context's; 0: at is the context's
	timer   *time.Timer
	left    time.Duration // when micros last looked
}

// pendingSweep is how often calls are looked at whose time is over.
const pendingSweep = 50 * time.Millisecond

// newDeadline takes the sweep into account only if it runs.
func newDeadline(ctx context.Context, option, def time.Duration, sweeping bool) deadline {
	at, ok := ctx.Deadline()
	timeout := option
	if timeout == 0 && !ok {
		timeout = def
	}
	if timeout == 0 {
		return deadline{ctx: ctx, at: at}
	}
	if !ok && sweeping && timeout >= 20*pendingSweep {
		return deadline{ctx: ctx, timeout: timeout}
	}
	own := time.Now().Add(timeout)
	if ok && at.Before(own) {
		return deadline{ctx: ctx, at: at}
	}
	d := deadline{ctx: ctx, at: own, timeout: timeout}
	if timeout < 20*pendingSweep || !sweeping {
		d.timer = time.NewTimer(timeout)
	}
	return d
}

// swept is when the sweep ends the call, as a pendingCall says it; 0 when a timer
// or the context does.
func (d *deadline) swept(base time.Time) int64 {
	switch {
	case d.timeout == 0 || d.timer != nil:
		return 0
	case d.at.IsZero():
		return -int64(d.timeout)
	}
	return int64(d.at.Sub(base))
}

// seen takes what the sweep made of swept, before the next try: later tries have
// no more time than the first.
func (d *deadline) seen(over int64, base time.Time) {
	switch {
	case !d.at.IsZero():
	case over > 0:
		d.at = base.Add(time.Duration(over))
	default:
		d.at = time.Now().Add(d.timeout) // no sweep saw it: it took less than pendingSweep
	}
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
	d.left = d.timeout
	if !d.at.IsZero() {
		d.left = time.Until(d.at)
	}
	return uint64(max(d.left.Microseconds(), 1))
}

// passed reports whether nothing remained when micros last looked.
func (d *deadline) passed() bool { return !d.at.IsZero() && d.left <= 0 }

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

// stringOf is the bytes as a string without a copy; nobody may change them any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
