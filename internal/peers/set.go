package peers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/transport"
)

// An Event is one that an Env counts.
type Event uint8

// The events.
const (
	FrameSent    Event = iota // a frame went to the broker
	FrameIgnored              // a frame was out of order, repeated or from nobody known
	NoPeer                    // an envelope was for a peer that is gone
	LimitTooLow               // the broker takes less than MinPayload
)

// An Env is the process that a Set is in. Its methods must not block.
type Env interface {
	// Link is the connection to the broker.
	Link() transport.Link
	// MayAnswer reports whether answers may leave.
	MayAnswer() bool
	// Closed reports whether the process ends.
	Closed() bool
	Count(Event)
	// Oversize sees to what was in an envelope that the broker takes no more. It is called
	// with the session's lock held.
	Oversize(*Session, *call.Oversize)
	// Stranger is called for the session with a member that has left, if nothing ever came to
	// it this way: it says no goodbye.
	Stranger(*Session)
}

// A Config describes the process of a Set.
type Config struct {
	Self  transport.Peer
	Lanes int
	// Window and MaxBuffered are as in call.Config.
	Window, MaxBuffered int
	// Calls knows the callers of this process that will call again in a moment.
	Calls *pending.Coalescer
}

// clientPatience is how long a process outside the cluster may be absent before
// what is kept for it goes. Members are judged by the membership instead. Nothing is
// remembered of what went: see the sessions of package call.
const clientPatience = time.Minute

// A Set is the sessions of a process. It is safe for concurrent use.
type Set struct {
	env Env
	cfg Config

	pumps   []pump        // one a lane
	begun   atomic.Uint64 // sessions between members and clients that this process has begun
	patient atomic.Int64  // clientPatience, but for tests

	mu    sync.RWMutex // guards the fields below
	peers map[transport.Address]*peer
	gone  removed
	left  map[transport.Address]bool // left in order, and may still say goodbye

	departed departed
}

// A peer is another process. It is never changed.
type peer struct {
	transport.Peer
	sessions []*Session // one a lane
}

// Init makes a Set without peers. It is called once, before anything else.
func (s *Set) Init(env Env, cfg Config) {
	s.env, s.cfg = env, cfg
	s.peers, s.left = map[transport.Address]*peer{}, map[transport.Address]bool{}
	s.patient.Store(int64(clientPatience))
	s.pumps = make([]pump, max(cfg.Lanes, 0))
	for i := range s.pumps {
		s.pumps[i].signal = make(chan struct{}, 1)
	}
}

// SetClientPatience sets how long a client may be absent before its sessions are dropped.
func (s *Set) SetClientPatience(d time.Duration) { s.patient.Store(int64(d)) }

// RunPump publishes the sessions that are left to the lane's pump, until ctx ends.
func (s *Set) RunPump(ctx context.Context, lane int) { s.pumps[lane].run(ctx.Done()) }

// Session is the session with a peer on a lane, made when it is first used. It is nil
// when the peer was removed.
func (s *Set) Session(to transport.Peer, lane int) *Session {
	s.mu.RLock()
	p := s.peers[to.Address]
	s.mu.RUnlock()
	if p == nil {
		if p = s.add(to); p == nil {
			return nil
		}
	}
	return p.sessions[lane]
}

func (s *Set) find(a transport.Address) *peer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.peers[a]
}

func (s *Set) add(to transport.Peer) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.has(to.Address) {
		return nil
	}
	if p := s.peers[to.Address]; p != nil {
		return p
	}
	p := &peer{Peer: to}
	for i := range s.cfg.Lanes {
		p.sessions = append(p.sessions, newSession(s, to, transport.Channel(i)))
	}
	s.peers[to.Address] = p
	return p
}

// Known is the session with a peer that this process has dealt with, else nil.
func (s *Set) Known(a transport.Address, lane int) *Session {
	if p := s.find(a); p != nil {
		return p.sessions[lane]
	}
	return nil
}

// Addresses are all processes that this one deals with.
func (s *Set) Addresses() []transport.Address {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.peers))
}

// All are the sessions with all peers.
func (s *Set) All() (all []*Session) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.peers {
		all = append(all, p.sessions...)
	}
	return all
}

// Rewind has all sessions of a lane send again what was not acknowledged, because its
// connection is back.
func (s *Set) Rewind(lane transport.Channel) {
	for _, p := range s.All() {
		if p.lane == lane {
			p.Rewind()
		}
	}
}

// What a peer has Left is for its user to see to: what it certainly did not execute is sent to the
// shards' next homes, and what nobody knows about is answered so.
type Left struct {
	Session        *Session
	Unacknowledged []call.Unacknowledged
	Stopped        []*routing.Route // routes that wait for the peer's acknowledgement
}

// Remove ends all dealings with a process that was removed, or those on one lane (0 and up)
// on which it said goodbye. It reports false when the process was removed before.
func (s *Set) Remove(a transport.Address, lane int, bye bool) (left []Left, ok bool) {
	s.mu.Lock()
	if s.gone.has(a) {
		s.mu.Unlock()
		return nil, false
	}
	p := s.peers[a]
	if lane < 0 {
		delete(s.peers, a)
		delete(s.left, a)
		s.gone.add(a, time.Now())
	}
	s.mu.Unlock()
	s.departed.add(a, lane)
	if p == nil {
		return nil, true
	}
	for i, p := range p.sessions {
		if lane < 0 || lane == i {
			unacknowledged, stopped := p.Close(bye)
			left = append(left, Left{p, unacknowledged, stopped})
		}
	}
	return left, true
}

// MarkLeft notes that a member has left. On a lane on which nothing came to it
// it says no goodbye: there a bounce ends the wait.
func (s *Set) MarkLeft(a transport.Address) {
	s.mu.Lock()
	s.left[a] = true
	p := s.peers[a]
	s.mu.Unlock()
	if p != nil {
		for _, p := range p.sessions {
			p.partIfStranger()
		}
	}
}

// MarkBack takes MarkLeft back: the word was early.
func (s *Set) MarkBack(a transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, a)
	p := s.peers[a]
	if p == nil {
		return
	}
	next := &peer{p.Peer, slices.Clone(p.sessions)}
	for i, old := range next.sessions {
		if old.IsGone() { // nothing was ever exchanged there: it begins anew
			next.sessions[i] = newSession(s, p.Peer, transport.Channel(i))
		}
	}
	s.peers[a] = next
}

// HasLeft reports whether a member has left and may still say goodbye.
func (s *Set) HasLeft(a transport.Address) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.left[a]
}

// HasGone reports whether all dealings with the process have ended.
func (s *Set) HasGone(a transport.Address) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.gone.has(a)
}

// Forgive lets a process that was removed have sessions again.
func (s *Set) Forgive(a transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone.forget(a)
}

// ClientLeft takes a client's goodbye on one lane. What it sent on others may still be
// on its way: it is forgotten when it has said goodbye on all that it used.
func (s *Set) ClientLeft(p *Session) {
	p.Close(true)
	a := p.Peer().Address
	if pp := s.find(a); pp != nil && !slices.ContainsFunc(pp.sessions, (*Session).inUse) {
		s.drop(a)
	}
}

// drop ends dealings with a client that said goodbye, or does not listen any
// more. If it lives after all it is known anew.
func (s *Set) drop(a transport.Address) {
	s.mu.Lock()
	p := s.peers[a]
	delete(s.peers, a)
	s.mu.Unlock()
	if p != nil {
		for _, p := range p.sessions {
			p.Close(true)
		}
	}
}

// Replace begins a new session with a peer that has dropped its side of p, and returns it;
// nil if the peer is gone. left is what the peer may have taken over p; it is nil if somebody
// else has replaced p already.
func (s *Set) Replace(p *Session) (next *Session, left *Left) {
	a, lane := p.Peer().Address, int(p.lane)
	s.mu.Lock()
	old := s.peers[a]
	if old == nil || old.sessions[lane] != p {
		s.mu.Unlock()
		return s.Known(a, lane), nil
	}
	renewed := &peer{old.Peer, slices.Clone(old.sessions)}
	next = newSession(s, old.Peer, p.lane)
	renewed.sessions[lane] = next
	s.peers[a] = renewed
	s.mu.Unlock()
	unacknowledged, stopped := p.Close(false)
	return next, &Left{p, unacknowledged, stopped}
}

// HasDeparted reports whether nothing comes from a process on the lane any more: it
// was removed, or said goodbye.
func (s *Set) HasDeparted(a transport.Address, lane int) bool {
	s.mu.RLock()
	p, gone := s.peers[a], s.gone.has(a)
	s.mu.RUnlock()
	return gone || p != nil && p.sessions[lane].IsGone()
}

// Departed are the latest processes from which nothing comes any more on the lane. An old
// home sends them with Open, so that a new home which came after they had left does not wait
// for acknowledgements that cannot come.
func (s *Set) Departed(lane int) []transport.Address { return s.departed.on(lane) }

// config is that of a new session's stream.
func (s *Set) config(to transport.Peer) call.Config {
	c := call.Config{
		Self: s.cfg.Self, MaxPayload: s.env.Link().MaxPayload(),
		Window: s.cfg.Window, MaxBuffered: s.cfg.MaxBuffered,
	}
	if to.Client || s.cfg.Self.Client {
		c.Session = s.begun.Add(1)
	}
	return c
}
