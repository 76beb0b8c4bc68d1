package node

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/transport"
)

// SettlePatience is how long a leaving node waits for running methods and for its peers'
// acknowledgements. It is less than calls.ByeGrace, after which peers stop listening to this node.
// It is more than region.BarrierTimeout, after which barriers hold no calls back. The node stops
// waiting for a peer earlier if the broker has returned every frame for that peer for
// peers.AbsentPatience.
const SettlePatience = calls.ByeGrace - 500*time.Millisecond

// Drain closes a process's sessions gracefully.
type Drain struct{ *Driver }

// Run ends the data plane (see calls.Plane.Leave). That takes at most SettlePatience from since on,
// or from now on if since is in the future. Then Run counts and logs envelopes that are still
// unacknowledged, and sends goodbyes to the peers. Run stops waiting when ctx ends.
func (drv Drain) Run(ctx context.Context, since time.Time) {
	begin := time.Now()
	if begin.Before(since) {
		since = begin
	}
	if !wait(ctx, func(done func()) { drv.Data.Leave(SettlePatience-begin.Sub(since), done) }) {
		drv.Data.Dismiss()
	}
	now := time.Now()
	for _, p := range drv.Sessions.All() {
		if n := p.Owed(now); n > 0 {
			drv.Counts.addN(leftUnacked, n)
			drv.Logger.Warn("leaving although a peer has not acknowledged everything that was sent to it; envelopes that do not arrive are lost",
				"peer", p.Peer().Address.String(), "lane", p.Lane(), "messages", n, "after", now.Sub(begin).Round(time.Millisecond))
		}
	}
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
	drv.sayGoodbye(ctx)
}

func (drv Drain) sayGoodbye(ctx context.Context) {
	for drv.answering.Load() > 0 {
		if ctx.Err() != nil {
			return // a goodbye says that no call is left without an answer
		}
		time.Sleep(time.Millisecond)
	}
	for _, p := range drv.Sessions.All() {
		p.Goodbye()
	}
	link := drv.Link()
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

// wait reports whether step called its argument before ctx ended.
func wait(ctx context.Context, step func(done func())) bool {
	over := make(chan struct{})
	go step(func() { close(over) }) // it may wait for a frame
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// SettleTells waits until no tell waits for a home. It also waits for the acknowledgement of all
// envelopes, because a former home may return unacknowledged tells. When ctx ends, it stops waiting
// and drops the waiting tells.
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
