package shard

import (
	"errors"
	"runtime"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/session"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// peerSession is a session with a peer on one lane: the session of package session, which
// sessionEnv joins to this process, and the decision when appended envelopes are
// published.
//
// Lock order: route.Mu or hostedShard.Mu, then the session's lock.
type peerSession struct {
	session.Session
	plane *plane
	ch    transport.Channel
	// Guarded by the session's lock.
	queued bool // it waits for the pump, or for the last of the woken callers
	timer  *time.Timer
}

func newSession(pl *plane, peer transport.Peer, ch transport.Channel) *peerSession {
	p := &peerSession{plane: pl, ch: ch}
	p.Init((*sessionEnv)(p), pl.sessionConfig(peer), peer)
	return p
}

// post appends an envelope that is not a call, and publishes. Envelopes that cannot be
// appended are counted and lost with their peer.
func (p *peerSession) post(e *wire.Envelope) {
	if err := p.append(e); err == nil {
		p.Flush()
	}
}

// append is post without publishing.
func (p *peerSession) append(e *wire.Envelope) error {
	_, err := p.Append(e)
	if err != nil {
		p.plane.counters.add(dropNoPeer)
	}
	return err
}

// answer appends an envelope that is not a call, to be published by by; at once if
// that is nil. It reports false when the peer is gone.
func (p *peerSession) answer(e *wire.Envelope, by publisher) bool {
	p.Lock()
	_, err := p.AppendLocked(e)
	if errors.Is(err, call.ErrTooLarge) && e.Type == wire.TypeReply {
		_, err = p.AppendLocked(tooLarge(e, err))
	}
	if err == nil && by == nil && !p.WritingLocked() {
		p.PublishLocked(false)
	}
	p.Unlock()
	if err == nil && by != nil {
		by.publishLater(p)
	}
	return err == nil
}

// A publication names the goroutine that publishes appended envelopes, unless one is publishing already.
type publication uint8

const (
	// together: the appender, or the last of the callers that were just woken and are about
	// to call again, so that one frame holds the calls of all.
	together publication = iota
	// alone is together for a single call. An idle session's caller publishes at once, so
	// that a lone call never waits; one of many first lets others add theirs.
	alone
	// pumped: the lane's pump, for an appender that goes on at once and may have more.
	pumped
)

// publishUnlock arranges the publishing of appended envelopes, and unlocks.
func (p *peerSession) publishUnlock(by publication) {
	f := &p.plane.pending.Coalescer
	switch {
	case p.WritingLocked() || p.queued:
		p.Unlock()
	case by == pumped:
		p.queued = true
		p.Unlock()
		p.Publish()
	case f.Woken() > 0:
		p.queued = true
		p.Unlock()
		f.Delay(p)
	default:
		p.PublishLocked(by == alone && f.UnderWay() > yieldAbove)
		p.Unlock()
	}
}

// yieldAbove is with how many calls under way a writer lets others add theirs
// before it publishes.
const yieldAbove = 2

// clientPatience is how long a process outside the cluster may be absent before its
// unacknowledged envelopes are dropped. Members are judged by the membership instead. No
// record of it is kept: see package call.
const clientPatience = time.Minute

// bounced notes that nobody listened for a frame.
func (p *peerSession) bounced(token uint64) {
	absent := p.Bounced(token)
	if p.Peer().Client && absent > p.plane.clientPatience {
		p.plane.dropPeer(p.Peer().Address)
	}
	if p.plane.hasLeft(p.Peer().Address) {
		p.partIfStranger()
	}
}

// partIfStranger ends the session with a member that has left, if nothing ever came to
// it this way and it does not listen any more.
func (p *peerSession) partIfStranger() {
	if p.Unreached() {
		p.plane.peerGone(p.Peer().Address, int(p.ch), false)
	}
}

// lostBy says, for people, why the outcome of unanswered calls to the peer is unknown; ""
// if the peer has left.
func (p *peerSession) lostBy() string {
	if p.Dropped() {
		return whyDropped
	}
	return ""
}

// sessionEnv is a peerSession as package session uses it: this process, for one session.
type sessionEnv peerSession

var _ session.Env = (*sessionEnv)(nil)

// Now is the time.
func (v *sessionEnv) Now() time.Time { return time.Now() }

// Send publishes a frame on the lane.
func (v *sessionEnv) Send(token uint64, frame []byte) error {
	if token != 0 {
		v.plane.counters.add(frameSent)
	}
	return v.plane.link().Send(v.ch, v.Peer(), token, frame)
}

// Repack makes frames fit a broker that takes less than it did.
func (v *sessionEnv) Repack(token uint64, size int, err error) bool {
	return errors.Is(err, transport.ErrTooLarge) && (*peerSession)(v).shrinkLocked(token, size)
}

// MayAnswer reports whether this node's lease lets answers leave.
func (v *sessionEnv) MayAnswer() bool { return v.plane.lease.MayAnswer() }

// MaxPayload returns the broker's payload limit, at least minPayload.
func (v *sessionEnv) MaxPayload() int { return max(v.plane.link().MaxPayload(), minPayload) }

// WakeAfter sets the timer.
func (v *sessionEnv) WakeAfter(d time.Duration) {
	if v.timer == nil {
		v.timer = time.AfterFunc(d, (*peerSession)(v).tick)
	} else {
		v.timer.Reset(d)
	}
}

// Yield lets other goroutines run.
func (v *sessionEnv) Yield() { runtime.Gosched() }

// Ignored counts a frame, and parts with a client that says goodbye.
func (v *sessionEnv) Ignored(bye bool) {
	v.plane.counters.add(frameIgnored)
	if bye {
		v.plane.clientLeft((*peerSession)(v))
	}
}

func (p *peerSession) tick() {
	if !p.plane.closed() {
		p.Tick()
	}
}
