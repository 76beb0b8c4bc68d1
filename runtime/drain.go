package shard

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/transport"
)

// settlePatience is how long a node that has left waits for the end of its methods and for
// acknowledgements. It is less than calls.ByeGrace, after which the others no longer listen,
// and more than region.BarrierTimeout, by which barriers for late calls have opened. The node
// does not wait for a peer from which everything has bounced for absentPatience.
const (
	settlePatience = calls.ByeGrace - 500*time.Millisecond
	absentPatience = time.Second
)

// drain closes a process's sessions with the others in order.
type drain struct{ *driver }

// settleSessions waits until the peers have acknowledged all envelopes so far. Once the
// link drains, no acknowledgement arrives. Envelopes that the window holds back could
// then not be sent, and lost ones would not be sent again. It counts and logs the
// envelopes that were not acknowledged when ctx or the time had ended, which is settlePatience
// from now on, or from since if that is earlier.
func (drv drain) settleSessions(ctx context.Context, since time.Time) {
	begin, sessions := time.Now(), drv.peers.All()
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
	for ; now.Sub(since) < settlePatience && ctx.Err() == nil && open(now); now = time.Now() {
		time.Sleep(time.Millisecond) // meanwhile the lanes receive
	}
	for i, p := range sessions {
		if n := p.Owed(last[i], now, absentPatience); n > 0 {
			drv.counters.addN(leftUnacked, n)
			drv.log.Warn("leaving although a peer has not acknowledged everything that was sent to it; envelopes that do not arrive are lost",
				"peer", p.Peer().Address.String(), "lane", p.Lane(), "messages", n, "after", now.Sub(begin).Round(time.Millisecond))
		}
	}
}

// run ends the link: received envelopes are handled and answered, and peers are told of
// the end.
func (drv drain) run(ctx context.Context) {
	drv.closeDirect(ctx)
	link := drv.link()
	if err := link.Drain(ctx); err != nil && !errors.Is(err, transport.ErrClosed) {
		drv.log.Warn("drain", "err", err)
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
	for _, p := range drv.peers.All() {
		p.Goodbye()
	}
	for i := range drv.lanes {
		if err := link.Flush(ctx, transport.Channel(i)); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			drv.log.Warn("flush the goodbye", "lane", i, "err", err)
		}
	}
}

// closeDirect ends direct lanes, and waits until the frames that were received have been
// handled. Frames that the peers have sent meanwhile come again over the broker.
func (drv drain) closeDirect(ctx context.Context) {
	l := drv.direct.Load()
	if l == nil {
		return
	}
	l.Close()
	select {
	case <-l.Drained():
	case <-ctx.Done():
	}
}

// dismiss handles calls that arrived late, for shards whose next home has left too.
func (drv drain) dismiss(ctx context.Context) {
	dismissed := make(chan struct{})
	drv.data.Depart(func() { close(dismissed) })
	select {
	case <-dismissed:
	case <-ctx.Done():
		drv.data.Dismiss()
	}
}

// settleTells waits until tells have arrived, or until ctx ends if they have no home. A
// tell that was sent but not acknowledged may come back from a node that is no longer its
// home.
func (drv drain) settleTells(ctx context.Context) {
	for drv.hasUnsettled() && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // meanwhile the lanes and the control loop run
	}
	drv.dropTells(time.Now())
}

// hasUnsettled reports whether tells wait for a home, or envelopes for a peer's
// acknowledgement.
func (drv drain) hasUnsettled() bool {
	for _, k := range *drv.kinds.Load() {
		for i := 0; i < len(k.routes) && drv.held.Load() > 0; i++ {
			if k.routes[i].holdsTells() {
				return true
			}
		}
	}
	for _, p := range drv.peers.All() {
		if p.Unsettled() {
			return true
		}
	}
	return false
}
