package node

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/transport"
)

// SettlePatience is how long a leaving node waits for running methods and for acknowledgements. It
// is less than calls.ByeGrace, after which peers stop listening to this node, and more than
// region.BarrierTimeout, after which barriers no longer hold late calls. The node stops waiting for
// a peer if the broker has returned every frame to that peer for absentPatience.
const (
	SettlePatience = calls.ByeGrace - 500*time.Millisecond
	absentPatience = time.Second
)

// Drain closes a process's sessions gracefully.
type Drain struct{ *Driver }

// SettleSessions waits until the peers have acknowledged all envelopes sent so far. It runs before
// the link drains: afterwards no acknowledgement arrives, so envelopes held back by the window
// could not be sent, and lost envelopes could not be sent again. It stops when ctx ends, or
// SettlePatience after the earlier of now and since. It counts and logs the envelopes that are
// still unacknowledged.
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

// Run drains the link: it handles and answers the received envelopes, then sends goodbyes to the
// peers.
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

// closeDirect ends direct lanes, and waits until the frames received on them are handled. Peers
// send all other frames again over the broker.
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

func (drv Drain) dismiss(ctx context.Context) {
	dismissed := make(chan struct{})
	drv.Data.Depart(func() { close(dismissed) })
	select {
	case <-dismissed:
	case <-ctx.Done():
		drv.Data.Dismiss()
	}
}

// SettleTells waits until no tell waits for a home or for an acknowledgement, or until ctx ends.
// Acknowledgements count too, because a former home may send an unacknowledged tell back.
func (drv Drain) SettleTells(ctx context.Context) {
	for drv.hasUnsettled() && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // meanwhile the lanes and the control loop run
	}
	drv.DropTells(time.Now())
}

func (drv Drain) hasUnsettled() bool {
	for _, k := range *drv.Kinds.Load() {
		for i := 0; i < len(k.routes) && drv.held.Load() > 0; i++ {
			if k.routes[i].HoldsTells() {
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
