package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// peerHost connects package peers, which has the sessions with other processes, to this
// process: it handles the calls, routes and shards of a process that is gone.
type peerHost struct {
	peers.Set
	plane *plane
}

var _ peers.Env = (*peerHost)(nil)

// init makes it without peers.
func (h *peerHost) init(pl *plane) {
	h.plane = pl
	h.Init(h, peers.Config{
		Self: pl.self, Lanes: pl.cfg.Lanes, Window: pl.cfg.Window, MaxBuffered: pl.cfg.MaxBuffered,
		Calls: &pl.pending.Coalescer,
	})
}

// Link is the connection to the broker.
func (h *peerHost) Link() transport.Link { return h.plane.link() }

// MayAnswer reports whether this node's lease lets answers leave.
func (h *peerHost) MayAnswer() bool { return h.plane.lease.MayAnswer() }

// Closed reports whether this process is ending.
func (h *peerHost) Closed() bool { return h.plane.closed() }

// peerReasons maps the events of package peers to the counters of this process.
var peerReasons = [...]reason{
	peers.FrameSent:    frameSent,
	peers.FrameIgnored: frameIgnored,
	peers.NoPeer:       dropNoPeer,
	peers.LimitTooLow:  limitTooLow,
}

// Count counts an event, and logs events that an operator has to resolve.
func (h *peerHost) Count(e peers.Event) {
	if e != peers.LimitTooLow {
		h.plane.counters.add(peerReasons[e])
		return
	}
	if n, tell := h.plane.counters.addSeldom(limitTooLow); tell {
		h.plane.log.Error("the broker takes too little: raise its max_payload", "max_payload", h.Link().MaxPayload(), "least", minPayload, "count", n)
	}
}

// Stranger closes a lane's session with a member that says no goodbye there.
func (h *peerHost) Stranger(p *peers.Session) { h.peerGone(p.Peer().Address, p.Lane(), false) }

// Oversize handles the message in an envelope that is larger than the broker accepts. The
// session's lock is held.
func (h *peerHost) Oversize(p *peers.Session, o *call.Oversize) {
	pl, e := h.plane, &o.Envelope
	switch e.Type {
	case wire.TypeCall:
		if !e.Node.IsZero() && e.Node.Address != pl.self.Address {
			h.refuseForwarded(p, o)
			return
		}
		code := wire.CodeUnsendable
		if !o.NotExecuted {
			code = codeUnrepeatable
		}
		pl.pending.Complete(e.ID, pending.Result{Code: code, Text: o.Error()})
	case wire.TypeTell:
		if n, tell := pl.counters.addSeldom(tellLost); tell {
			pl.log.Warn("tell lost: the broker takes less than it did", "to", p.Peer().Address, "kind", string(e.Kind),
				"entity", clip(string(e.Entity)), "method", clip(string(e.Method)), "err", o, "lost so far", n)
		}
	case wire.TypeInit:
		id := placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}
		pl.ctl.moveAborted(id, placement.Epoch(e.Epoch), "send the state to "+p.Peer().Address.String()+": "+o.Error())
	}
}

// refuseForwarded answers the sender of a call that this node has forwarded. It does not
// answer for a call that may have arrived: its sender waits until its deadline.
func (h *peerHost) refuseForwarded(p *peers.Session, o *call.Oversize) {
	if !o.NotExecuted {
		return
	}
	to, lane := o.Envelope.Node, p.Lane()
	answer := &wire.Envelope{Type: wire.TypeReply, ID: o.Envelope.ID, Code: wire.CodeUnsendable, Text: []byte(o.Error())}
	h.plane.wg.Go(func() { // not below the lock of this session
		if other := h.Session(to, lane); other != nil {
			other.Post(answer)
		}
	})
}

// connState follows a lane's connection.
func (h *peerHost) connState(ch transport.Channel, s transport.State) {
	h.plane.reach.note(ch, s.Connected, time.Now())
	if s.Connected && ch != transport.Control {
		h.Rewind(ch)
	}
}

// peerGone closes all sessions with a process that was removed, or the session on one
// lane (0 and up) on which it said goodbye. Calls that it certainly did not run are
// sent to the shards' next homes. Calls that may have run fail with outcome Unknown.
func (h *peerHost) peerGone(a transport.Address, lane int, bye bool) {
	pl := h.plane
	left, ok := h.Remove(a, lane, bye)
	if !ok {
		return
	}
	is := func(o transport.Address) bool { return o == a }
	// Calls that come back from the peer take another route, ahead of calls that barriers hold.
	pl.eachHosted(lane, func(s *hostedShard) { s.Forget(is) })
	for i := range left {
		h.reroute(&left[i])
	}
	pl.eachHosted(lane, func(s *hostedShard) { s.OpenBarriers(is) })
	if lane >= 0 {
		return
	}
	for _, k := range *pl.kinds.Load() {
		for i := range k.routes {
			k.routes[i].OwnerGone(a, nil)
		}
	}
	// A peer that said goodbye on a lane had answered or forwarded all calls of that
	// lane: those without an answer run elsewhere.
	pl.pending.CompleteSent(func(p pending.Session) bool {
		return p.Peer().Address == a && !p.(*peers.Session).SaidGoodbye()
	}, pending.Result{Code: codeLost, Lost: a})
}

// byeGrace is how long a member that left in order may still say goodbye on its
// lanes before envelopes that it did not acknowledge count as lost.
const byeGrace = 3 * time.Second

// peerLeft is peerGone for a member that left in order.
func (h *peerHost) peerLeft(a transport.Address) {
	h.MarkLeft(a)
	time.AfterFunc(byeGrace, func() {
		if !h.plane.closed() {
			h.peerGone(a, -1, false)
		}
	})
}

// replaceSession begins a new session with a peer that has dropped its side of p, and returns
// it; nil if the peer is gone. Calls that may have reached a member over p and were not
// answered fail with outcome Unknown; calls that certainly did not reach it go to the shards'
// homes now. Sessions on other lanes are replaced separately.
func (h *peerHost) replaceSession(p *peers.Session) *peers.Session {
	next, left := h.Replace(p)
	if left == nil {
		return next
	}
	pl, a := h.plane, p.Peer().Address
	h.reroute(left)
	if p.Peer().Client {
		return next
	}
	lost := pl.pending.CompleteSent(func(s pending.Session) bool { return s == p }, pending.Result{Code: codeLost, Lost: a, Text: whyDropped})
	pl.log.Warn("a member has dropped its state of this connection, which was away for too long",
		"member", a, "lane", p.Lane(), "unacknowledged", len(left.Unacknowledged), "calls without an answer", lost)
	for _, k := range *pl.kinds.Load() {
		k.comeBack(pl.table.Load(), a, p.Lane())
	}
	return next
}

// reroute gives the envelopes that a gone peer left unacknowledged to the routes.
func (h *peerHost) reroute(left *peers.Left) {
	routing.GiveBack(returner{h.plane, left.Session}, left.Session.Peer().Address, left.Unacknowledged, left.Stopped)
}

// returner sorts the unacknowledged envelopes of a session whose peer is gone.
type returner struct {
	plane   *plane
	session *peers.Session
}

// RouteOf is the route of an envelope.
func (t returner) RouteOf(e *wire.Envelope) *routing.Route {
	if r := t.plane.routeFor(e); r != nil {
		return &r.Route
	}
	return nil
}

// Waits reports whether a caller still waits for the answer.
func (t returner) Waits(id uint64) bool { return t.plane.pending.Waits(id) }

// Lost answers a call that may have run, and counts a tell.
func (t returner) Lost(e *wire.Envelope) {
	pl := t.plane
	if e.Type == wire.TypeTell {
		pl.lost.lose(&pl.counters, Unknown)
	}
	pl.pending.Complete(e.ID, pending.Result{Code: codeLost, Lost: t.session.Peer().Address, Text: t.lostBy()})
}

// Again counts a call that is sent again.
func (t returner) Again(e *wire.Envelope) {
	t.plane.pending.Sent(e.ID, nil, 0)
	t.plane.counters.add(callRetried)
}

// Returned takes back a call that this node had forwarded to a departed peer, after the
// shard has forgotten that peer. If certain, it was not handled there. Otherwise it may
// have run, and its sender waits until its deadline.
func (t returner) Returned(e *wire.Envelope, certain bool) {
	pl, lane := t.plane, t.session.Lane()
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil || k.host == nil {
		return
	}
	s := k.host.shard(e.Shard)
	switch {
	case s == nil:
	case e.Type == wire.TypeFlushed:
		s.Flushed(shardhost.FlushOf(e))
	case certain:
		pl.counters.add(callRetried)
		c := newInCall(pl, pl.self, e, lane, time.Now())
		s.Return(&c.Call, !t.session.SaidGoodbye())
	case e.Type == wire.TypeTell:
		pl.counters.add(tellLost)
	}
}

// lostBy describes how the peer lost the unanswered calls, for error texts; it is "" if
// the peer has left.
func (t returner) lostBy() string {
	if t.session.Dropped() {
		return whyDropped
	}
	return ""
}

// refusal takes back an envelope that the peer did not execute.
func (h *peerHost) refusal(from *peers.Session, e *wire.Envelope) {
	pl := h.plane
	if e.Code != wire.CodeMoved {
		if e.ID == 0 || !pl.pending.Complete(e.ID, pending.Result{Code: e.Code, Text: string(e.Text)}) {
			h.tellRefused(from, e)
		}
		return
	}
	env, ok := from.Find(e.Seq)
	if !ok {
		pl.counters.add(frameIgnored)
		return
	}
	if r := pl.routeFor(&env); r != nil {
		pl.counters.add(callRetried)
		r.Refused(from.Peer().Address, env, e.Node.Address, placement.Epoch(e.Epoch))
	}
}

// tellRefused counts a tell that the peer did not run, and logs some of them, because
// there may be very many.
func (h *peerHost) tellRefused(from *peers.Session, e *wire.Envelope) {
	pl := h.plane
	pl.lost.unsent.Add(1)
	n, tell := pl.counters.addSeldom(tellLost)
	if !tell || e.Code == wire.CodeDropped { // the handoff mode of its type drops calls
		return
	}
	env, _ := from.Find(e.Seq) // the envelope, if it is still known
	pl.log.Warn("tell refused", "by", from.Peer().Address, "kind", clip(string(e.Kind)), "entity", clip(string(env.Entity)),
		"method", clip(string(env.Method)), "code", int(e.Code), "why", bounded.Text(string(e.Text)), "lost so far", n)
}

// cancelCall cancels the turn of a call whose caller has given up.
func (h *peerHost) cancelCall(from transport.Peer, e *wire.Envelope) {
	pl := h.plane
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil || k.host == nil {
		return
	}
	if sh := k.host.shard(e.Shard); sh != nil {
		sh.Cancel(from.Address, string(e.Entity), e.ID)
	}
}

// moveStep handles the envelopes of a shard's move.
func (h *peerHost) moveStep(from *peers.Session, e *wire.Envelope) {
	pl := h.plane
	k := (*pl.kinds.Load())[string(e.Kind)]
	if e.Type == 0 {
		return // a call that was withdrawn
	}
	if k == nil || k.host == nil || k.host.shard(e.Shard) == nil {
		if e.Type == wire.TypeInit {
			from.Post(&wire.Envelope{
				Type: wire.TypeReject, Kind: e.Kind, Shard: e.Shard, Epoch: e.Epoch,
				Text: []byte(pl.self.Name + " does not host the type"),
			})
		}
		pl.counters.add(frameIgnored)
		return
	}
	sh := k.host.shard(e.Shard)
	var opens func(transport.Address, placement.Epoch)
	if in := k.host.instance; in != nil {
		opens = in.PredecessorOpened // its manager decides
	}
	if !sh.Step(from, e, opens) {
		pl.counters.add(frameIgnored)
	}
}
