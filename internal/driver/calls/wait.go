package calls

import (
	"context"
	"time"
)

type goroutine chan struct{}

// NewCaller returns the Caller for a new slot of a Table.
func NewCaller() Caller { return make(goroutine, 1) }

// Wake wakes the waiting goroutine.
func (c goroutine) Wake() { c <- struct{}{} }

// Await waits until the call has its result, limit has passed or ctx has ended, and reports whether
// the call has its result. If it does not, Await has removed the call from the table, and the
// caller of Await must call the Coalescer's GaveUp.
func Await(ctx context.Context, t *Table, c *Call, id uint64, limit *Deadline) (answered bool) {
	done := c.Caller.(goroutine)
	if ctx.Done() == nil && limit.timer == nil {
		<-done // the sweep ends the call
	} else if !wait(ctx, done, limit) {
		if t.Remove(id) != nil {
			return false
		}
		<-done // the answer came at the same time
	}
	t.Coalescer.Resumed()
	return true
}

// wait waits until done has an element, limit has passed or ctx has ended, and reports whether done
// had an element.
//
//go:noinline
func wait(ctx context.Context, done goroutine, limit *Deadline) (answered bool) {
	select {
	case <-done:
		return true
	case <-limit.over():
	case <-ctx.Done():
	}
	return false
}

// Abandon ends a call that was opened with the given hint and never sent.
func Abandon(t *Table, c *Call, id, hint uint64) {
	if t.Remove(id) == nil {
		<-c.Caller.(goroutine)
		t.Coalescer.Resumed()
	} else {
		t.Coalescer.GaveUp()
	}
	t.Free(c, hint)
}

// A Deadline is when a call's time ends: at the deadline of the call's context, or after the call's
// own timeout if that comes first. Usually the sweep of the pending calls ends a call after its
// timeout, so the call needs no timer. If the context has no deadline, the call does not even read
// the clock. A timeout of less than 20 sweep intervals uses a timer, and so does any timeout if the
// process does not sweep.
type Deadline struct {
	ctx     context.Context
	at      time.Time     // zero: timeout counts from the first sweep
	timeout time.Duration // the call's own, not the context's; 0 means that at is the context's
	timer   *time.Timer
	left    time.Duration // what Micros last returned
}

// SweepInterval is the interval between two sweeps. A sweep ends calls whose time is over.
const SweepInterval = 50 * time.Millisecond

// NewDeadline returns the deadline of a call in ctx. option is the call's own timeout; 0 means
// none. def is the timeout of a call without its own timeout and without a deadline in ctx.
// sweeping says that the process sweeps its pending calls.
func NewDeadline(ctx context.Context, option, def time.Duration, sweeping bool) Deadline {
	at, ok := ctx.Deadline()
	timeout := option
	if timeout == 0 && !ok {
		timeout = def
	}
	if timeout == 0 {
		return Deadline{ctx: ctx, at: at}
	}
	if !ok && sweeping && timeout >= 20*SweepInterval {
		return Deadline{ctx: ctx, timeout: timeout}
	}
	own := time.Now().Add(timeout)
	if ok && at.Before(own) {
		return Deadline{ctx: ctx, at: at}
	}
	d := Deadline{ctx: ctx, at: own, timeout: timeout}
	if timeout < 20*SweepInterval || !sweeping {
		d.timer = time.NewTimer(timeout)
	}
	return d
}

// Swept returns when the sweep ends the call, in the form of Open's parameter over. 0 means that a
// timer or the context ends the call.
func (d *Deadline) Swept(base time.Time) int64 {
	switch {
	case d.timeout == 0 || d.timer != nil:
		return 0
	case d.at.IsZero():
		return -int64(d.timeout)
	}
	return int64(d.at.Sub(base))
}

// Seen is called between two attempts of a call. It records when the sweep would have ended the
// last attempt, so that all attempts together get no more time than the first.
func (d *Deadline) Seen(over int64, base time.Time) {
	switch {
	case !d.at.IsZero():
	case over > 0:
		d.at = base.Add(time.Duration(over))
	default:
		d.at = time.Now().Add(d.timeout) // no sweep has seen the call, so it took less than SweepInterval
	}
}

func (d *Deadline) over() <-chan time.Time {
	if d.timer == nil {
		return nil
	}
	return d.timer.C
}

// Stop releases the timer.
func (d *Deadline) Stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// Micros returns the remaining time in microseconds, at least 1, to be sent with the call.
func (d *Deadline) Micros() uint64 {
	d.left = d.timeout
	if !d.at.IsZero() {
		d.left = time.Until(d.at)
	}
	return uint64(max(d.left.Microseconds(), 1))
}

// Passed reports whether no time remained when Micros was last called.
func (d *Deadline) Passed() bool { return !d.at.IsZero() && d.left <= 0 }

// Sleep sleeps for t and returns true. It returns false if the call's time ends before t is over.
func (d *Deadline) Sleep(t time.Duration) bool {
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
