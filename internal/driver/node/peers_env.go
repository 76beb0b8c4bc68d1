package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type peersEnv struct {
	driver *Driver
	turned atomic.Int64 // when a client was last sent a refusal, in nanoseconds of the lease's clock
}

var _ peers.Env = (*peersEnv)(nil)

func (v *peersEnv) Closed() bool { return v.driver.Closed() }

var peerReasons = [...]Reason{
	peers.FrameIgnored:  FrameIgnored,
	peers.NoPeer:        dropNoPeer,
	peers.LimitTooLow:   limitTooLow,
	peers.Expired:       clientExpired,
	peers.AnswerDropped: answerDropped,
}

// Count counts an event. If the event is LimitTooLow, Count also logs that the broker's payload
// limit is too low, because only an operator can raise the limit.
func (v *peersEnv) Count(e peers.Counter) {
	if e != peers.LimitTooLow {
		v.driver.Counts.Add(peerReasons[e])
		return
	}
	if n, tell := v.driver.Counts.AddSeldom(limitTooLow); tell {
		v.driver.Logger.Error("the broker's payload limit is too low (raise its max_payload)", "max_payload", v.driver.Link().MaxPayload(), "least", minPayload, "count", n)
	}
}

// turnAwayEvery is the shortest time between two refusals of sessions to clients.
const turnAwayEvery = 20 * time.Millisecond

// OverQuota tells a client that it gets no session, but sends at most one such message in
// turnAwayEvery. Further refusals are only counted.
func (v *peersEnv) OverQuota(to transport.Peer) {
	now, last := v.driver.Lease.Now(), v.turned.Load()
	if last != 0 && now-last < int64(turnAwayEvery) || !v.turned.CompareAndSwap(last, now) {
		v.driver.Counts.Add(ClientOverQuota)
		return
	}
	v.driver.Control.TurnAway(to, fmt.Sprintf("it already has sessions with %d processes called %s, the maximum for one name (use different names, or close connections)", peers.MaxNamed, to.Name))
}

// Wanted offers a direct lane to the peer of a session.
func (v *peersEnv) Wanted(p *peers.Session) {
	if l := v.driver.Direct.Load(); l != nil {
		l.Want(p.Peer(), p.Lane())
	}
}

// Stranger closes the session with a member that has left, on a lane on which the member never got
// a frame.
func (v *peersEnv) Stranger(p *peers.Session) {
	v.driver.Data.PeerGone(p.Peer().Address, p.Lane(), false)
}

// Oversize handles a message that is larger than the broker accepts. The caller has the session's
// lock.
func (v *peersEnv) Oversize(p *peers.Session, o *stream.Oversize) {
	drv, e := v.driver, &o.Envelope
	switch e.Type {
	case wire.TypeCall:
		if v.forwarded(e) {
			v.refuseForwarded(p, o)
			return
		}
		code := wire.CodeUnsendable
		if !o.NotExecuted {
			code = calls.Unrepeatable
		}
		drv.Pending.Complete(e.ID, calls.Result{Code: code, Text: o.Error()})
	case wire.TypeTell:
		if !v.forwarded(e) {
			drv.Undelivered.note(o.NotExecuted)
		}
		if n, tell := drv.Counts.AddSeldom(tellLost); tell {
			drv.Logger.Warn("tell lost: the broker's payload limit has been lowered, and the tell is now too large", "to", p.Peer().Address, "kind", string(e.Kind),
				"entity", clip(string(e.Entity)), "method", clip(string(e.Method)), "err", o, "lost so far", n)
		}
	case wire.TypeInit:
		id := placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}
		drv.Control.MoveAborted(id, placement.Epoch(e.Epoch), "send the state to "+p.Peer().Address.String()+": "+o.Error())
	}
}

func (v *peersEnv) forwarded(e *wire.Envelope) bool {
	return !e.Node.IsZero() && e.Node.Address != v.driver.Local.Address
}

// refuseForwarded answers the sender of a forwarded call that is too large. If the call may have
// arrived, the sender gets no answer and waits until the call's deadline.
func (v *peersEnv) refuseForwarded(p *peers.Session, o *stream.Oversize) {
	if !o.NotExecuted {
		return
	}
	to, lane := o.Envelope.Node, p.Lane()
	answer := &wire.Envelope{Type: wire.TypeAnswer, ID: o.Envelope.ID, Code: wire.CodeUnsendable, Text: []byte(o.Error())}
	v.driver.Group.Go(func() { // not below the lock of this session
		if other := v.driver.Sessions.Session(to, lane); other != nil {
			other.Post(answer)
		}
	})
}
