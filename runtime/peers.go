package shard

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

type peerSessions struct {
	peer     transport.Peer
	sessions []*peerSession // one a lane
}

// session is the session with a peer on a lane, made when it is first used. It is nil
// when the peer was removed.
func (pl *plane) session(peer transport.Peer, lane int) *peerSession {
	pl.peersMu.RLock()
	pp := pl.peers[peer.Address]
	pl.peersMu.RUnlock()
	if pp == nil {
		if pp = pl.addPeer(peer); pp == nil {
			return nil
		}
	}
	return pp.sessions[lane]
}

func (pl *plane) addPeer(peer transport.Peer) *peerSessions {
	pl.peersMu.Lock()
	defer pl.peersMu.Unlock()
	if pl.gone.has(peer.Address) {
		return nil
	}
	if pp := pl.peers[peer.Address]; pp != nil {
		return pp
	}
	pp := &peerSessions{peer: peer}
	for i := range pl.cfg.Lanes {
		pp.sessions = append(pp.sessions, newSession(pl, peer, transport.Channel(i)))
	}
	pl.peers[peer.Address] = pp
	return pp
}

// connState follows a lane's connection.
func (pl *plane) connState(ch transport.Channel, s transport.State) {
	pl.reach.note(ch, s.Connected, time.Now())
	if !s.Connected || ch == transport.Control {
		return
	}
	pl.peersMu.RLock()
	var sessions []*peerSession
	for _, pp := range pl.peers {
		sessions = append(sessions, pp.sessions[ch])
	}
	pl.peersMu.RUnlock()
	for _, p := range sessions {
		p.Rewind()
	}
}

// peerGone ends all dealings with a process that was removed, or those on one lane (0 and
// up) on which it said goodbye. Calls that it certainly did not execute are sent to the
// shards' next homes; others fail with an unknown outcome.
func (pl *plane) peerGone(a transport.Address, lane int, bye bool) {
	pl.peersMu.Lock()
	if pl.gone.has(a) {
		pl.peersMu.Unlock()
		return
	}
	pp := pl.peers[a]
	if lane < 0 {
		delete(pl.peers, a)
		delete(pl.left, a)
		pl.gone.add(a, time.Now())
	}
	pl.peersMu.Unlock()
	pl.departed.add(a, lane)
	var reroute []func()
	if pp != nil {
		for i, p := range pp.sessions {
			if lane < 0 || lane == i {
				left, stopped := p.Close(bye)
				reroute = append(reroute, func() { pl.reroute(p, left, stopped) })
			}
		}
	}
	is := func(o transport.Address) bool { return o == a }
	// Calls that come back from the peer take another route, ahead of calls that barriers hold.
	pl.eachHosted(lane, func(s *hostedShard) { s.Forget(is) })
	for _, f := range reroute {
		f()
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
		return p.Peer().Address == a && !p.(*peerSession).SaidGoodbye()
	}, pending.Result{Code: codeLost, Lost: a})
}

// eachHosted calls f for the shards that this node may have, on one lane or, with
// -1, on all.
func (pl *plane) eachHosted(lane int, f func(*hostedShard)) {
	for _, k := range *pl.kinds.Load() {
		if k.host != nil {
			k.host.eachShard(lane, f)
		}
	}
}

// byeGrace is how long a member that left in order may still say goodbye on its lanes
// before its unacknowledged calls count as lost.
const byeGrace = 3 * time.Second

// peerLeft is peerGone for a member that left in order.
func (pl *plane) peerLeft(a transport.Address) {
	pl.markLeft(a)
	time.AfterFunc(byeGrace, func() {
		if !pl.closed() {
			pl.peerGone(a, -1, false)
		}
	})
}

// markLeft notes that a member has left. On a lane on which nothing came to it
// it says no goodbye: there a bounce ends the wait.
func (pl *plane) markLeft(a transport.Address) {
	pl.peersMu.Lock()
	pl.left[a] = true
	pp := pl.peers[a]
	pl.peersMu.Unlock()
	if pp != nil {
		for _, p := range pp.sessions {
			p.partIfStranger()
		}
	}
}

// peerBack takes markLeft back: the word was early.
func (pl *plane) peerBack(a transport.Address) {
	pl.peersMu.Lock()
	defer pl.peersMu.Unlock()
	delete(pl.left, a)
	pp := pl.peers[a]
	if pp == nil {
		return
	}
	next := &peerSessions{peer: pp.peer, sessions: slices.Clone(pp.sessions)}
	for i, p := range next.sessions {
		if p.IsGone() { // nothing was ever exchanged there: it begins anew
			next.sessions[i] = newSession(pl, pp.peer, transport.Channel(i))
		}
	}
	pl.peers[a] = next
}

func (pl *plane) hasLeft(a transport.Address) bool {
	pl.peersMu.RLock()
	defer pl.peersMu.RUnlock()
	return pl.left[a]
}

// clientLeft takes a client's goodbye on one lane. Envelopes on other lanes may still be
// on their way: the peer is forgotten when it has said goodbye on all lanes that it used.
func (pl *plane) clientLeft(p *peerSession) {
	p.Close(true)
	pl.peersMu.RLock()
	pp := pl.peers[p.Peer().Address]
	pl.peersMu.RUnlock()
	if pp == nil || slices.ContainsFunc(pp.sessions, func(p *peerSession) bool { return p.inUse() }) {
		return
	}
	pl.dropPeer(p.Peer().Address)
}

// inUse tells whether anything went or came by the session, and its peer is not gone.
func (p *peerSession) inUse() bool {
	p.Lock()
	defer p.Unlock()
	return !p.GoneLocked() && p.UsedLocked()
}

// dropPeer ends dealings with a client that said goodbye, or does not listen any
// more. If it lives after all it is known anew.
func (pl *plane) dropPeer(a transport.Address) {
	pl.peersMu.Lock()
	pp := pl.peers[a]
	delete(pl.peers, a)
	pl.peersMu.Unlock()
	if pp != nil {
		for _, p := range pp.sessions {
			p.Close(true)
		}
	}
}

// replaceSession begins a new session with a peer that has dropped its side of p, and
// returns it; nil if the peer is gone. The outcome of calls that may have reached the
// member over p, and have no answer, is unknown. Calls that never reached it go to the
// shards' homes now. Other lanes find out by themselves.
func (pl *plane) replaceSession(p *peerSession) *peerSession {
	a := p.Peer().Address
	pl.peersMu.Lock()
	pp := pl.peers[a]
	if pp == nil || pp.sessions[p.ch] != p {
		pl.peersMu.Unlock()
		return pl.knownSession(a, int(p.ch))
	}
	next := &peerSessions{peer: pp.peer, sessions: slices.Clone(pp.sessions)}
	next.sessions[p.ch] = newSession(pl, pp.peer, p.ch)
	pl.peers[a] = next
	pl.peersMu.Unlock()
	left, stopped := p.Close(false)
	pl.reroute(p, left, stopped)
	if p.Peer().Client {
		return next.sessions[p.ch]
	}
	lost := pl.pending.CompleteSent(func(s pending.Session) bool { return s == p }, pending.Result{Code: codeLost, Lost: a, Text: whyDropped})
	pl.log.Warn("a member has dropped what it knew of this connection, which was away for too long",
		"member", a, "lane", int(p.ch), "unacknowledged", len(left), "calls without an answer", lost)
	for _, k := range *pl.kinds.Load() {
		k.comeBack(pl.table.Load(), a, int(p.ch))
	}
	return next.sessions[p.ch]
}

// reroute gives the unacknowledged envelopes of a departed peer to the routes.
func (pl *plane) reroute(p *peerSession, left []call.Unacknowledged, stopped []*routing.Route) {
	routing.GiveBack(returner{p}, p.Peer().Address, left, stopped)
}

func (pl *plane) routeFor(e *wire.Envelope) *route {
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil {
		return nil
	}
	return k.route(e.Shard)
}

// peerAddresses are all processes that this one deals with.
func (pl *plane) peerAddresses() []transport.Address {
	pl.peersMu.RLock()
	defer pl.peersMu.RUnlock()
	return slices.Collect(maps.Keys(pl.peers))
}

// hasDeparted reports whether nothing comes from a process on the lane any more: it
// was removed, or said goodbye.
func (pl *plane) hasDeparted(a transport.Address, lane int) bool {
	pl.peersMu.RLock()
	pp, gone := pl.peers[a], pl.gone.has(a)
	pl.peersMu.RUnlock()
	return gone || pp != nil && pp.sessions[lane].IsGone()
}

// knownSession is the session with a peer that this process has dealt with, else nil.
func (pl *plane) knownSession(a transport.Address, lane int) *peerSession {
	pl.peersMu.RLock()
	defer pl.peersMu.RUnlock()
	if pp := pl.peers[a]; pp != nil {
		return pp.sessions[lane]
	}
	return nil
}
