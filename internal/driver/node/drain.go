package node

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/transport"
)

// SettlePatience is how long a node that has left waits for the end of its methods and for
// acknowledgements. It is less than calls.ByeGrace, after which the others no longer listen,
// and more than region.BarrierTimeout, by which barriers for late calls have opened. The node
// does not wait for a peer from which everything has bounced for absentPatience.
const (
	SettlePatience = calls.ByeGrace - 500*time.Millisecond
	absentPatience = time.Second
)

// Drain closes a process's sessions with the others in order.
type Drain struct{ *Driver }

// SettleSessions waits until the peers have acknowledged all envelopes so far. Once the
// link drains, no acknowledgement arrives. Envelopes that the window holds back could
// then not be sent, and lost ones would not be sent again. It counts and logs the
// envelopes that were not acknowledged when ctx or the time had ended, which is SettlePatience
// from now on, or from since if that is earlier.
func (drv Drain) SettleSessions(ctx context.Context, since time.Time) {
	begin, sessions := time.Now(), drv.Sessions.All()
	if begin.Before(since) {
		since = begin
	}
	last := make([]uint64, len(sessions)) // the sequence number to wait for, by session
	for i, p := range sessions {
		last[i] = p.Last()
	}
	open := func(now time.Time) bool {
		for i, p := range sessions {
			if p.Owed(last[i], now, absentPatience) > 0 {
				return true
			}
		}
		return false
	}
	now := begin
	for ; now.Sub(since) < SettlePatience && ctx.Err() == nil && open(now); now = time.Now() {
		time.Sleep(time.Millisecond) // meanwhile the lanes receive
	}
	for i, p := range sessions {
		if n := p.Owed(last[i], now, absentPatience); n > 0 {
			drv.Counts.addN(leftUnacked, n)
			drv.Logger.Warn("leaving although a peer has not acknowledged everything that was sent to it; envelopes that do not arrive are lost",
				"peer", p.Peer().Address.String(), "lane", p.Lane(), "messages", n, "after", now.Sub(begin).Round(time.Millisecond))
		}
	}
}

// Run ends the link: received envelopes are handled and answered, and peers are told of
// the end.
func (drv Drain) Run(ctx context.Context) {
	drv.closeDirect(ctx)
	link := drv.Link()
	if err := link.Drain(ctx); err != nil && !errors.Is(err, transport.ErrClosed) {
		drv.Logger.Warn("drain", "err", err)
	}
	for _, l := range drv.lanes {
		select {
		case <-l.done:
		case <-ctx.Done():
			return
		}
	}
	drv.dismiss(ctx)
	for drv.answering.Load() > 0 {
		if ctx.Err() != nil {
			return // a goodbye says that no call is left without an answer
		}
		time.Sleep(time.Millisecond)
	}
	for _, p := range drv.Sessions.All() {
		p.Goodbye()
	}
	for i := range drv.lanes {
		if err := link.Flush(ctx, transport.Channel(i)); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			drv.Logger.Warn("flush the goodbye", "lane", i, "err", err)
		}
	}
}

// closeDirect ends direct lanes, and waits until the frames that were received have been
// handled. Frames that the peers have sent meanwhile come again over the broker.
func (drv Drain) closeDirect(ctx context.Context) {
	l := drv.Direct.Load()
	if l == nil {
		return
	}
	l.Close()
	select {
	case <-l.Drained():
	case <-ctx.Done():
	}
}

// dismiss handles late calls for shards whose next home has left too.
func (drv Drain) dismiss(ctx context.Context) {
	dismissed := make(chan struct{})
	drv.Data.Depart(func() { close(dismissed) })
	select {
	case <-dismissed:
	case <-ctx.Done():
		drv.Data.Dismiss()
	}
}

// SettleTells waits until tells have arrived, or until ctx ends if they have no home. A sent but
// unacknowledged tell may come back from a former home.
func (drv Drain) SettleTells(ctx context.Context) {
	for drv.hasUnsettled() && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // meanwhile the lanes and the control loop run
	}
	drv.DropTells(time.Now())
}

// hasUnsettled reports whether tells wait for a home, or envelopes for a peer's
// acknowledgement.
func (drv Drain) hasUnsettled() bool {
	for _, k := range *drv.Kinds.Load() {
		for i := 0; i < len(k.routes) && drv.held.Load() > 0; i++ {
			if k.routes[i].holdsTells() {
				return true
			}
		}
	}
	for _, p := range drv.Sessions.All() {
		if p.Unsettled() {
			return true
		}
	}
	return false
}
