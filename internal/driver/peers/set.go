package peers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

// A Counter is one of the counters of a process. [Env.Count] adds one to it.
type Counter uint8

// The events that package peers counts.
const (
	FrameIgnored  Counter = iota // frames out of order, repeated, or from an unknown process
	NoPeer                       // envelopes for a peer that has departed
	LimitTooLow                  // the broker's payload limit was below MinPayload
	Expired                      // clients whose sessions were ended, because they were never used, had no listener, or acknowledged nothing
	AnswerDropped                // answers, or only their results, dropped because a client leaves too much unacknowledged
)

// An Env is the process of a Set. Its methods must not block.
type Env interface {
	// Closed reports whether the process is ending.
	Closed() bool
	Count(Counter)
	// Oversize handles a message that is larger than the broker accepts. It is called with the
	// session's lock held.
	Oversize(*Session, *stream.Oversize)
	// OverQuota is called when a client gets no session, because there are sessions with MaxNamed
	// clients of its name. It may be called very often.
	OverQuota(transport.Peer)
	// Wanted is called, perhaps often, if Config.Direct is set and a session sends frames without a
	// direct lane.
	Wanted(*Session)
	// Stranger is called for a session with a member that has left, if no frame ever reached the
	// member on this session. Such a member sends no goodbye on it.
	Stranger(*Session)
}

// A Config describes the process of a Set.
type Config struct {
	Self  transport.Peer
	Lanes int
	// Window and MaxBuffered are as in stream.Config.
	Window, MaxBuffered int
	// AnswerBytes bounds the bytes kept for all clients of one name.
	AnswerBytes int
	// Calls counts the callers of this process that will probably call again at once.
	Calls *calls.Coalescer
	// Direct is set if sessions may have direct lanes.
	Direct bool
	// Link returns the connection to the broker, which each new session keeps. It must not block.
	Link func() transport.Link
	// MayAnswer reports whether the process's lease allows sending answers. It must not block.
	MayAnswer func() bool
}

// clientPatience is how long nobody may listen at a client's address before its sessions are
// dropped. Membership decides about members instead.
const clientPatience = time.Minute

// A Set holds the sessions of a process. It is safe for concurrent use.
type Set struct {
	env  Env
	cfg  Config
	base time.Time // the sessions' times count from it

	pumps   []pump        // one for each lane
	begun   atomic.Uint64 // number of sessions between a member and a client that this process has begun
	patient atomic.Int64  // clientPatience, unless a test has changed it
	sent    atomic.Pointer[func(frame []byte)]
	frames  atomic.Uint64 // number of frames sent
	direct  atomic.Uint64 // number of frames sent on direct lanes

	mu      sync.RWMutex // guards the fields below
	peers   map[transport.Address]*peer
	most    int // largest number of peers, for bounded.Refit
	named   map[string]*name
	removed removed
	left    map[transport.Address]bool // members that left gracefully and may still say goodbye

	departed departed
}

// Init makes an empty Set. It is called once, before any other method.
func (s *Set) Init(env Env, cfg Config) {
	s.env, s.cfg, s.base = env, cfg, time.Now()
	s.peers, s.left = map[transport.Address]*peer{}, map[transport.Address]bool{}
	s.named = map[string]*name{}
	s.patient.Store(int64(clientPatience))
	s.pumps = make([]pump, max(cfg.Lanes, 0))
	for i := range s.pumps {
		s.pumps[i].signal = make(chan struct{}, 1)
	}
}

// SetClientPatience sets how long nobody may listen at a client's address before the client's
// sessions are dropped.
func (s *Set) SetClientPatience(d time.Duration) { s.patient.Store(int64(d)) }

// SetSent makes the Set call f for each frame with envelopes that it sends, through the broker or a
// direct lane; nil means no function. f must not keep the frame.
func (s *Set) SetSent(f func(frame []byte)) {
	if f == nil {
		s.sent.Store(nil)
		return
	}
	s.sent.Store(&f)
}

// Frames returns how many frames with envelopes were sent, and how many of them on direct lanes.
func (s *Set) Frames() (sent, direct uint64) { return s.frames.Load(), s.direct.Load() }

// RunPump publishes the sessions that are given to the lane's pump, until ctx ends.
func (s *Set) RunPump(ctx context.Context, lane int) { s.pumps[lane].run(ctx.Done()) }

// Session returns the session with a peer on a lane. If there is none, it makes the sessions with
// the peer. It returns nil if the peer was removed. It also returns nil for a new client if
// MaxNamed clients of the same name have sessions.
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
	p, over := s.addWithin(to)
	if over {
		s.env.OverQuota(to)
	}
	return p
}

// addWithin is add, but does not call Env.OverQuota. over means that the name has MaxNamed clients.
func (s *Set) addWithin(to transport.Peer) (p *peer, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed.has(to.Address) {
		return nil, false
	}
	if p := s.peers[to.Address]; p != nil {
		return p, false
	}
	to.Name = strings.Clone(to.Name) // it may be a part of a frame
	if to.Client {
		if !s.nameLocked(to.Name) {
			return nil, true
		}
	}
	p = &peer{Peer: to, began: time.Now()}
	for i := range s.cfg.Lanes {
		p.sessions = append(p.sessions, newSession(s, to, transport.Channel(i)))
	}
	s.peers[to.Address] = p
	return p, false
}

func (s *Set) removeLocked(a transport.Address) {
	p := s.peers[a]
	if p == nil {
		return
	}
	delete(s.peers, a)
	if !p.Client {
		return
	}
	if n := s.named[a.Name]; n.clients > 1 {
		n.clients--
	} else {
		delete(s.named, a.Name)
	}
}

// Known returns the session with a peer if there is one, and nil otherwise.
func (s *Set) Known(a transport.Address, lane int) *Session {
	s.mu.RLock()
	p := s.peers[a]
	s.mu.RUnlock()
	if p == nil {
		return nil
	}
	return p.sessions[lane]
}

// Addresses returns all processes with which this process has sessions.
func (s *Set) Addresses() []transport.Address {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.peers))
}

// All returns the sessions with all peers.
func (s *Set) All() (all []*Session) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.peers {
		all = append(all, p.sessions...)
	}
	return all
}

// AwaitsBounce reports whether the broker may still return a frame, which would prove that a peer
// did not receive some envelopes.
func (s *Set) AwaitsBounce() bool {
	return slices.ContainsFunc(s.All(), func(p *Session) bool { return p.AwaitsBounce() })
}

// Rewind makes all sessions of a lane send unacknowledged envelopes again, because the
// lane's connection is back.
func (s *Set) Rewind(lane transport.Channel) {
	for _, p := range s.All() {
		if p.lane == lane {
			p.Rewind()
		}
	}
}

// Left is what a closed session leaves behind, for the Set's user. The user must send calls that
// the peer certainly did not run to their shards' next homes, and must fail all other calls with
// outcome Unknown.
type Left struct {
	Session        *Session
	Unacknowledged []stream.Unacknowledged
	Stopped        []*routing.Route // routes that waited for the peer's acknowledgements
}

// Remove closes the sessions with a process. If lane is below 0, the process was removed, and
// Remove closes all of them. Otherwise the peer has said goodbye on that lane, and Remove closes
// only the session there. It reports false if the process was already removed.
func (s *Set) Remove(a transport.Address, lane int, bye bool) (left []Left, ok bool) {
	s.mu.Lock()
	if s.removed.has(a) {
		s.mu.Unlock()
		return nil, false
	}
	p := s.peers[a]
	if lane < 0 {
		s.removeLocked(a)
		delete(s.left, a)
		s.removed.add(a, time.Now())
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

// MarkLeft records that a member has left. The member sends no goodbye on a lane on which it
// received nothing. On such a lane the session ends when the broker returns a frame.
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

// MarkBack undoes MarkLeft, because the member has not left.
func (s *Set) MarkBack(a transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, a)
	p := s.peers[a]
	if p == nil {
		return
	}
	next := &peer{p.Peer, slices.Clone(p.sessions), p.began}
	for i, old := range next.sessions {
		if old.HasDeparted() { // nothing was ever exchanged: it starts again
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

// WasRemoved reports whether the process was removed, so that all sessions with it are closed.
func (s *Set) WasRemoved(a transport.Address) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.removed.has(a)
}

// Forgive lets this process have sessions with a removed process again.
func (s *Set) Forgive(a transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed.forget(a)
}

// ClientLeft handles a client's goodbye on one lane. The client's messages on other lanes may still
// arrive. So the client is dropped only after its goodbyes on all lanes that it used.
func (s *Set) ClientLeft(p *Session) {
	p.Close(true)
	a := p.Peer().Address
	if pp := s.find(a); pp != nil && !slices.ContainsFunc(pp.sessions, (*Session).inUse) {
		s.drop(a)
	}
}

// drop closes the sessions with a client. If the client still lives, it gets new sessions.
func (s *Set) drop(a transport.Address) {
	s.mu.Lock()
	p := s.peers[a]
	s.removeLocked(a)
	s.mu.Unlock()
	if p != nil {
		for _, p := range p.sessions {
			p.Close(true)
		}
	}
}

// Replace begins a new session in place of p, whose other side the peer has dropped. It returns the
// new session, or nil if the peer has departed. left has the unacknowledged envelopes of p, which
// the peer may have received. left is nil if p has already been replaced or the peer has departed.
func (s *Set) Replace(p *Session) (next *Session, left *Left) {
	a, lane := p.Peer().Address, int(p.lane)
	s.mu.Lock()
	old := s.peers[a]
	if old == nil || old.sessions[lane] != p {
		s.mu.Unlock()
		return s.Known(a, lane), nil
	}
	renewed := &peer{old.Peer, slices.Clone(old.sessions), old.began}
	next = newSession(s, old.Peer, p.lane)
	next.path.lane.Store(p.path.lane.Load())
	renewed.sessions[lane] = next
	s.peers[a] = renewed
	s.mu.Unlock()
	unacknowledged, stopped := p.Close(false)
	return next, &Left{p, unacknowledged, stopped}
}

// HasDeparted reports whether a process was removed, or said goodbye on the lane.
func (s *Set) HasDeparted(a transport.Address, lane int) bool {
	s.mu.RLock()
	p, removed := s.peers[a], s.removed.has(a)
	s.mu.RUnlock()
	return removed || p != nil && p.sessions[lane].HasDeparted()
}

// Departed returns the latest peers that have departed from the lane. A shard's former home sends
// this list to the new home in the message Open. A new home that started after these peers departed
// would otherwise wait for Flushes that come by way of them.
func (s *Set) Departed(lane int) []transport.Address { return s.departed.on(lane) }

func (s *Set) configLocked(to transport.Peer) stream.Config {
	c := stream.Config{
		Self: s.cfg.Self, MaxPayload: s.cfg.Link().MaxPayload(),
		Window: s.cfg.Window, MaxBuffered: s.cfg.MaxBuffered,
	}
	if to.Client || s.cfg.Self.Client {
		c.Session = s.begun.Add(1)
	}
	if to.Client {
		c.Account = stream.NewAccount(s.cfg.MaxBuffered, s.named[to.Name].account)
	}
	return c
}

// SweepClients ends the sessions of clients that never used their sessions, and of clients that
// acknowledge nothing. It also sends a message to each client that has been silent for long, to
// find out whether the client still listens. It is called every few seconds.
func (s *Set) SweepClients(now time.Time) {
	for _, p := range s.clients() {
		switch heard, used := p.lastHeard(); {
		case !used && now.Sub(p.began) > unusedFor:
			s.expire(p.Address)
		case p.stalled(now) > stalledFor:
			s.expire(p.Address)
		case used && now.Sub(heard) > silentFor:
			p.probe(now)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = bounded.Refit(s.peers, &s.most)
}

func (s *Set) clients() (all []*peer) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.named) == 0 {
		return nil
	}
	for _, p := range s.peers {
		if p.Client {
			all = append(all, p)
		}
	}
	return all
}

func (s *Set) expire(a transport.Address) {
	s.env.Count(Expired)
	s.drop(a)
}
