package shard

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/calling"
	"github.com/shardgen/shardgen/internal/dataplane"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// peerHost connects package peers, which has the sessions with other processes, to this
// process.
type peerHost struct {
	peers.Set
	driver *driver
	turned atomic.Int64 // when a client was last turned away, in nanoseconds of the lease's clock
}

var _ peers.Env = (*peerHost)(nil)

// init makes it without peers.
func (h *peerHost) init(drv *driver) {
	h.driver = drv
	h.Init(h, peers.Config{
		Self: drv.self, Lanes: drv.cfg.Lanes, Window: drv.cfg.Window, MaxBuffered: drv.cfg.MaxBuffered,
		AnswerBytes: drv.cfg.AnswerBytes, Calls: &drv.pending.Coalescer, Direct: drv.cfg.Direct.enabled(),
		Link: drv.link, MayAnswer: drv.lease.MayAnswer,
	})
}

// Closed reports whether this process is ending.
func (h *peerHost) Closed() bool { return h.driver.closed() }

// peerReasons maps the events of package peers to the counters of this process.
var peerReasons = [...]reason{
	peers.FrameIgnored:  frameIgnored,
	peers.NoPeer:        dropNoPeer,
	peers.LimitTooLow:   limitTooLow,
	peers.Expired:       clientExpired,
	peers.AnswerDropped: answerDropped,
}

// Count counts an event, and logs events that an operator has to resolve.
func (h *peerHost) Count(e peers.Counter) {
	if e != peers.LimitTooLow {
		h.driver.counters.add(peerReasons[e])
		return
	}
	if n, tell := h.driver.counters.addSeldom(limitTooLow); tell {
		h.driver.log.Error("the broker takes too little: raise its max_payload", "max_payload", h.driver.link().MaxPayload(), "least", minPayload, "count", n)
	}
}

// turnAwayEvery is how often at most a client is told that it gets no session.
const turnAwayEvery = 20 * time.Millisecond

// OverQuota tells a client that it gets no session. It counts all, and tells few of a flood.
func (h *peerHost) OverQuota(to transport.Peer) {
	now, last := h.driver.lease.Now(), h.turned.Load()
	if last != 0 && now-last < int64(turnAwayEvery) || !h.turned.CompareAndSwap(last, now) {
		h.driver.counters.add(clientOverQuota)
		return
	}
	h.driver.ctl.turnAway(to, fmt.Sprintf("it has sessions with %d processes called %s and no more (give processes names of their own, or close connections)", peers.MaxNamed, to.Name))
}

// Wanted offers the peer of a session a direct lane.
func (h *peerHost) Wanted(p *peers.Session) {
	if l := h.driver.direct.Load(); l != nil {
		l.Want(p.Peer(), p.Lane())
	}
}

// Stranger closes a lane's session with a member that says no goodbye there.
func (h *peerHost) Stranger(p *peers.Session) {
	h.driver.data.PeerGone(p.Peer().Address, p.Lane(), false)
}

// Oversize handles the message in an envelope that is larger than the broker accepts. The
// session's lock is held.
func (h *peerHost) Oversize(p *peers.Session, o *call.Oversize) {
	drv, e := h.driver, &o.Envelope
	switch e.Type {
	case wire.TypeCall:
		if !e.Node.IsZero() && e.Node.Address != drv.self.Address {
			h.refuseForwarded(p, o)
			return
		}
		code := wire.CodeUnsendable
		if !o.NotExecuted {
			code = calling.Unrepeatable
		}
		drv.pending.Complete(e.ID, pending.Result{Code: code, Text: o.Error()})
	case wire.TypeTell:
		if n, tell := drv.counters.addSeldom(tellLost); tell {
			drv.log.Warn("tell lost: the broker takes less than it did", "to", p.Peer().Address, "kind", string(e.Kind),
				"entity", clip(string(e.Entity)), "method", clip(string(e.Method)), "err", o, "lost so far", n)
		}
	case wire.TypeInit:
		id := placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}
		drv.ctl.moveAborted(id, placement.Epoch(e.Epoch), "send the state to "+p.Peer().Address.String()+": "+o.Error())
	}
}

// refuseForwarded answers the sender of a call that this node has forwarded. It does not
// answer for a call that may have arrived: its sender waits until its deadline.
func (h *peerHost) refuseForwarded(p *peers.Session, o *call.Oversize) {
	if !o.NotExecuted {
		return
	}
	to, lane := o.Envelope.Node, p.Lane()
	answer := &wire.Envelope{Type: wire.TypeAnswer, ID: o.Envelope.ID, Code: wire.CodeUnsendable, Text: []byte(o.Error())}
	h.driver.group.Go(func() { // not below the lock of this session
		if other := h.Session(to, lane); other != nil {
			other.Post(answer)
		}
	})
}

// connState follows a lane's connection.
func (h *peerHost) connState(ch transport.Channel, s transport.State) {
	h.driver.reach.note(ch, s.Connected, time.Now())
	if s.Connected && ch != transport.Control {
		h.Rewind(ch)
	}
}

// denied fails the calls that wait for a process whose subject the broker refuses, or for all
// processes on a lane that gets no connection for want of a right. An earlier sending of such a
// call may have arrived.
func (h *peerHost) denied(lane int, to transport.Address, why string) {
	h.driver.pending.CompleteSent(func(s pending.Session) bool {
		p, ok := s.(*peers.Session)
		return ok && p.Lane() == lane && (to.IsZero() || p.Peer().Address == to)
	}, pending.Result{Code: calling.Denied, Text: why})
}

// dataEnv implements the interface of package dataplane for this process.
type dataEnv driver

var _ dataplane.Env = (*dataEnv)(nil)

// Self returns this process.
func (v *dataEnv) Self() transport.Peer { return v.self }

// Calls returns the calls that wait for their answers.
func (v *dataEnv) Calls() *pending.Table { return &v.pending }

// Table returns the latest table.
func (v *dataEnv) Table() *placement.Table { return v.table.Load() }

// Route returns the route of a shard, or nil if this process knows no such shard.
func (v *dataEnv) Route(kind []byte, shard uint32) *routing.Route {
	if k := (*v.kinds.Load())[string(kind)]; k != nil {
		if r := k.route(shard); r != nil {
			return &r.Route
		}
	}
	return nil
}

// EachRoute calls f for the routes of a lane, or of all lanes.
func (v *dataEnv) EachRoute(lane int, f func(*routing.Route)) {
	for _, k := range *v.kinds.Load() {
		for i := range k.routes {
			if r := &k.routes[i]; lane < 0 || (*driver)(v).laneOf(r.shard) == lane {
				f(&r.Route)
			}
		}
	}
}

// Shard returns a shard of a type that this process hosts.
func (v *dataEnv) Shard(kind []byte, shard uint32) (dataplane.Shard, bool) {
	k := (*v.kinds.Load())[string(kind)]
	if k == nil {
		return nil, false
	}
	s := k.hosted(shard)
	return s, s != nil
}

// EachShard calls f for the shards of a lane, or of all lanes.
func (v *dataEnv) EachShard(lane int, f func(dataplane.Shard)) {
	for _, k := range *v.kinds.Load() {
		if k.host != nil {
			k.host.eachShard(lane, func(s *hostedShard) { f(s) })
		}
	}
}

// Knows reports whether a process is a member, or was one until it left or was removed.
func (v *dataEnv) Knows(a transport.Address) bool { return v.ctl.knows(a) || v.Parted(a) }

// MarkLeft notes that a member has left in order.
func (v *dataEnv) MarkLeft(a transport.Address) { v.peers.MarkLeft(a) }

// Parted reports whether a member has left, or was removed.
func (v *dataEnv) Parted(a transport.Address) bool {
	return v.peers.HasLeft(a) || v.peers.WasRemoved(a)
}

// After calls f once, after d.
func (v *dataEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !(*driver)(v).closed() {
			f()
		}
	})
}

// Returned makes a call of an envelope that this process had forwarded.
func (v *dataEnv) Returned(e *wire.Envelope, lane int) *shardhost.Call {
	return &newInCall((*driver)(v), v.self, e, lane, time.Now()).Call
}

// Session returns the session with a process on a lane.
func (v *dataEnv) Session(to transport.Peer, lane int) (dataplane.Session, bool) {
	p := v.peers.Session(to, lane)
	return p, p != nil
}

// Peers returns the processes with which there are sessions.
func (v *dataEnv) Peers() []transport.Address { return v.peers.Addresses() }

// Close closes the sessions with a process that was removed, or the session on one lane.
func (v *dataEnv) Close(a transport.Address, lane int, bye bool) (left []dataplane.Left, ok bool) {
	if l := v.direct.Load(); l != nil && lane < 0 {
		l.Gone(a)
	}
	closed, ok := v.peers.Remove(a, lane, bye)
	for i := range closed {
		left = append(left, leftOf(&closed[i]))
	}
	return left, ok
}

func leftOf(l *peers.Left) dataplane.Left {
	return dataplane.Left{Session: l.Session, Lane: l.Session.Lane(), Unacknowledged: l.Unacknowledged, Stopped: l.Stopped}
}

// Renew begins a new session in place of one that the peer has dropped.
func (v *dataEnv) Renew(s dataplane.Session) (next dataplane.Session, left *dataplane.Left) {
	p, closed := v.peers.Replace(s.(*peers.Session))
	if p != nil {
		next = p
	}
	if closed != nil {
		l := leftOf(closed)
		left = &l
	}
	return next, left
}

// Part says goodbye, on all lanes, to a process that most likely does not exist any more.
func (v *dataEnv) Part(a transport.Address) {
	for lane := range v.cfg.Lanes {
		if p := v.peers.Known(a, lane); p != nil {
			p.Part()
		}
	}
}

// Forgive lets a process that was removed have sessions again.
func (v *dataEnv) Forgive(a transport.Address) { v.peers.Forgive(a) }

// dataReasons maps the events of package dataplane to the counters of this process.
var dataReasons = [...]reason{
	dataplane.Ignored: frameIgnored,
	dataplane.NoPeer:  dropNoPeer,
	dataplane.Retried: callRetried,
}

// Count counts an event.
func (v *dataEnv) Count(e dataplane.Counter) { v.counters.add(dataReasons[e]) }

// Refused counts a call that was not taken.
func (v *dataEnv) Refused(code wire.Code) { (*driver)(v).refused(code) }

// Lost counts a lost tell.
func (v *dataEnv) Lost(e *wire.Envelope, how dataplane.Loss) {
	switch {
	case e.Type != wire.TypeTell:
	case how == dataplane.LostUnacknowledged:
		v.lost.lose(&v.counters, Unknown)
	default: // another process's
		v.counters.add(tellLost)
	}
}

// TellRefused counts a tell that the peer did not run, and logs some of them, because
// there may be very many.
func (v *dataEnv) TellRefused(from dataplane.Session, e *wire.Envelope) {
	v.lost.unsent.Add(1)
	n, tell := v.counters.addSeldom(tellLost)
	if !tell || e.Code == wire.CodeDropped { // the handoff mode of its type drops calls
		return
	}
	env, _ := from.Find(e.Seq) // the envelope, if it is still known
	v.log.Warn("tell refused", "by", from.Peer().Address, "kind", clip(string(e.Kind)), "entity", clip(string(env.Entity)),
		"method", clip(string(env.Method)), "code", int(e.Code), "why", bounded.Text(string(e.Text)), "lost so far", n)
}

// Renewed logs that a member had dropped a session.
func (v *dataEnv) Renewed(left *dataplane.Left, lost int) {
	v.log.Warn("a member has dropped its state of this connection, which was away for too long",
		"member", left.Session.Peer().Address, "lane", left.Lane, "unacknowledged", len(left.Unacknowledged), "calls without an answer", lost)
}
