package shard

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/transport"
)

// path drives one call.Path: its lock, its one writer at a time, its timer.
//
// Lock order: route.mu or hostedShard.mu, then path.mu.
type path struct {
	plane *plane
	peer  transport.Peer
	ch    transport.Channel

	// handled is the highest sequence from the peer whose envelope was handled:
	// what acknowledgements say. Only the lane's runner raises it.
	handled atomic.Uint64
	// bye: the peer said goodbye on this lane.
	bye atomic.Bool

	mu      sync.Mutex
	core    *call.Path
	writing bool             // somebody publishes; others only append
	written chan struct{}    // closed when who publishes is done; nil: nobody waits for that
	queued  bool             // it waits for the pump, or for the last of the woken callers
	gone    bool             // the peer is gone: nothing more is appended
	heard   time.Time        // when the peer last sent anything
	absent  time.Time        // since when everything bounced; zero: it does not
	stopped []*routing.Route // routes that wait for the peer's acknowledgement
	timer   *time.Timer
	wakeAt  time.Time // when the timer fires; zero: not armed
}

func newPath(pl *plane, peer transport.Peer, ch transport.Channel) *path {
	return &path{plane: pl, peer: peer, ch: ch, core: call.NewPath(pl.pathConfig(peer), peer)}
}

// Peer is the process at the other end.
func (p *path) Peer() transport.Peer { return p.peer }

// Lock guards what is appended.
func (p *path) Lock() { p.mu.Lock() }

// Unlock ends Lock.
func (p *path) Unlock() { p.mu.Unlock() }

// GoneLocked reports whether the peer is gone.
func (p *path) GoneLocked() bool { return p.gone }

// AckedLocked is the highest sequence that the peer has acknowledged.
func (p *path) AckedLocked() uint64 { return p.core.Acked() }

// AwaitLocked has the route told of the peer's acknowledgements.
func (p *path) AwaitLocked(r *routing.Route) {
	if !slices.Contains(p.stopped, r) {
		p.stopped = append(p.stopped, r)
	}
}

// Append appends one envelope.
func (p *path) Append(e *wire.Envelope) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AppendLocked(e)
}

// AppendAll appends envelopes with nothing between them.
func (p *path) AppendAll(parts []*wire.Envelope) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range parts {
		if _, err := p.AppendLocked(e); err != nil {
			return err
		}
	}
	return nil
}

// AppendLocked adds an envelope; the caller holds mu and calls Flush afterwards.
func (p *path) AppendLocked(e *wire.Envelope) (uint64, error) {
	if p.gone {
		return 0, errPeerGone
	}
	if e.SizeBound() > smallMessage {
		p.core.SetLimit(max(p.plane.link().MaxPayload(), minPayload))
	}
	return p.core.Append(e)
}

// post appends an envelope that is not a call, and publishes. What cannot be
// appended is counted and gone with its peer.
func (p *path) post(e *wire.Envelope) {
	if err := p.append(e); err == nil {
		p.Flush()
	}
}

// append is post without publishing.
func (p *path) append(e *wire.Envelope) error {
	p.mu.Lock()
	_, err := p.AppendLocked(e)
	p.mu.Unlock()
	if err != nil {
		p.plane.ledger.add(dropNoPeer)
	}
	return err
}

// answer appends an envelope that is not a call, to be published by by; at once if
// that is nil. It reports false when the peer is gone.
func (p *path) answer(e *wire.Envelope, by publisher) bool {
	p.mu.Lock()
	_, err := p.AppendLocked(e)
	if errors.Is(err, errTooLarge) && e.Type == wire.TypeReply {
		_, err = p.AppendLocked(tooLarge(e, err))
	}
	if err == nil && by == nil && !p.writing {
		p.publishLocked(false)
	}
	p.mu.Unlock()
	if err == nil && by != nil {
		by.publishLater(p)
	}
	return err == nil
}

// Flush publishes what has gathered, unless somebody else is at it.
func (p *path) Flush() {
	p.mu.Lock()
	if !p.writing {
		p.publishLocked(false)
	}
	p.mu.Unlock()
}

// depart publishes what has gathered, together with the calls of those who were
// just woken and are about to call again.
func (p *path) depart() {
	p.mu.Lock()
	p.departLocked(false)
}

// sendLocked is departLocked for a call that was just appended, or a tell. An
// idle path's caller publishes itself, so that a lone call never waits; one of
// many lets others add theirs. Tells are left to the pump, for their sender goes
// on at once and may have more.
func (p *path) sendLocked(tell bool) {
	if tell && !p.writing && !p.queued {
		p.queued = true
		p.mu.Unlock()
		p.pump()
		return
	}
	p.departLocked(p.plane.pending.flow.underWay() > yieldAbove)
}

// departLocked has what was appended published, and releases mu: by whoever is at
// it, by the last of the callers that were woken, or here.
func (p *path) departLocked(gather bool) {
	f := &p.plane.pending.flow
	switch {
	case p.writing || p.queued:
		p.mu.Unlock()
	case f.woken() > 0:
		p.queued = true
		p.mu.Unlock()
		f.delay(p)
	default:
		p.publishLocked(gather)
		p.mu.Unlock()
	}
}

// yieldAbove is with how many calls under way a writer lets others add theirs
// before it publishes.
const yieldAbove = 2

// publishLocked publishes what has gathered. With gather it first lets other
// goroutines add theirs.
func (p *path) publishLocked(gather bool) {
	p.writing = true
	if gather {
		p.gatherLocked()
	}
	p.writeLocked(gather)
	p.wroteLocked()
	p.armLocked()
}

// wroteLocked ends the time in which others only append.
func (p *path) wroteLocked() {
	p.writing = false
	if p.written != nil {
		close(p.written)
		p.written = nil
	}
}

// gatherLocked lets other goroutines append as long as they do and the frame is
// not full.
func (p *path) gatherLocked() {
	for range maxYields {
		before := p.core.Next()
		if p.core.Full() {
			return
		}
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
		if p.core.Next() == before {
			return
		}
	}
}

// maxYields bounds how long a writer waits for others; each is a pass of the
// scheduler.
const maxYields = 8

func (p *path) writeLocked(gather bool) {
	for first := true; ; first = false {
		if gather && !first {
			p.gatherLocked()
		}
		now, take := time.Now(), p.core.Take
		if !p.plane.lease.mayAnswer() {
			take = p.core.TakeAck // an answer must not leave, and calls stand behind answers
		}
		payload, token, ok := take(now, p.handled.Load())
		if !ok {
			return
		}
		p.mu.Unlock()
		p.plane.ledger.add(frameSent)
		err := p.plane.link().Send(p.ch, p.peer, token, payload)
		p.mu.Lock()
		if errors.Is(err, transport.ErrTooLarge) && p.shrinkLocked(token, len(payload)) {
			continue
		}
		if err != nil {
			p.core.Unsent(token, now)
			return
		}
	}
}

// leaseLook is how often a path looks whether its node may answer again.
const leaseLook = 20 * time.Millisecond

// armLocked makes the timer fire when the core wants to be called.
func (p *path) armLocked() {
	now := time.Now()
	wake := p.core.Tick(now)
	if soon := now.Add(leaseLook); p.core.Next() > p.core.Acked()+1 && !p.plane.lease.mayAnswer() && (wake.IsZero() || wake.After(soon)) {
		wake = soon
	}
	if wake.IsZero() || p.gone || !p.wakeAt.IsZero() && !p.wakeAt.After(wake) {
		return
	}
	p.wakeAt = wake
	d := max(wake.Sub(now), time.Millisecond)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.tick)
	} else {
		p.timer.Reset(d)
	}
}

func (p *path) tick() {
	p.mu.Lock()
	p.wakeAt = time.Time{}
	p.core.Tick(time.Now())
	p.mu.Unlock()
	if !p.plane.closed() {
		p.Flush()
	}
}

// rewind sends again what was not acknowledged: the lane's connection is back.
func (p *path) rewind() {
	p.mu.Lock()
	p.core.Rewind()
	p.mu.Unlock()
	p.Flush()
}

// clientPatience is how long a process outside the cluster may be absent before
// what is kept for it goes. Members are judged by the membership instead. Nothing is
// remembered of what went: see the sessions of package call.
const clientPatience = time.Minute

func (p *path) bounced(token uint64) {
	now := time.Now()
	p.mu.Lock()
	p.core.Bounced(token, now)
	p.armLocked()
	if p.absent.IsZero() {
		p.absent = now
	}
	drop := p.peer.Client && now.Sub(p.absent) > p.plane.clientPatience
	p.mu.Unlock()
	if drop {
		p.plane.dropPeer(p.peer.Address)
	}
	if p.plane.hasLeft(p.peer.Address) {
		p.partIfStranger()
	}
}

// partIfStranger ends the path to a member that has left, if nothing ever came to
// it this way and it does not listen any more: it does not know of the path, and
// will not say goodbye.
func (p *path) partIfStranger() {
	p.mu.Lock()
	stranger := p.core.Unreached() && !p.absent.IsZero() && !p.gone
	p.mu.Unlock()
	if stranger {
		p.plane.peerGone(p.peer.Address, int(p.ch), false)
	}
}

// receive takes a frame's header. ok is false when the frame must be ignored, or, with
// dropped, belongs to a path that is to be made.
func (p *path) receive(h *wire.FrameHeader, at time.Time) (skip uint32, dropped, ok bool) {
	p.mu.Lock()
	p.heard = at
	skip, ok = p.core.Receive(h, at)
	if !ok {
		dropped = p.core.Dropped() && !p.gone
		p.mu.Unlock()
		if !dropped {
			p.ignored(h)
		}
		return 0, dropped, false
	}
	p.armLocked()
	p.mu.Unlock()
	return skip, false, true
}

// ignored sees to what a frame asks for that is not handled.
func (p *path) ignored(h *wire.FrameHeader) {
	p.plane.ledger.add(frameIgnored)
	p.mu.Lock()
	farewell := p.core.Farewell(h)
	p.mu.Unlock()
	if farewell {
		p.plane.clientLeft(p)
		return
	}
	p.Flush() // perhaps with a request to send again, or with the path's number
}

// received ends a frame of that size: its envelopes were handled, so its
// acknowledgement counts. It reports whether something may be published now that
// could not before.
func (p *path) received(h *wire.FrameHeader, size int) (more bool) {
	p.mu.Lock()
	p.absent = time.Time{}
	progress := p.core.Ack(h, time.Now())
	owed := p.core.AckOwed(p.handled.Load(), size)
	more = progress && p.core.Unpublished() || owed || h.Flags&wire.FlagNack != 0
	if !more {
		p.armLocked() // an acknowledgement may be due again
	}
	var stopped []*routing.Route
	var acked uint64
	if progress && len(p.stopped) > 0 {
		stopped, p.stopped = p.stopped, nil
		acked = p.core.Acked()
	}
	p.mu.Unlock()
	for _, r := range stopped {
		r.Acked(p.peer.Address, acked)
	}
	return more
}

// lostBy says what became of what the peer did not answer, for people; "" if the peer
// has left.
func (p *path) lostBy() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core.Dropped() {
		return whyDropped
	}
	return ""
}

func (p *path) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// close gives the path up and returns what the peer never acknowledged. Bye
// tells that the peer said so itself.
func (p *path) close(bye bool) (left []call.Leftover, stopped []*routing.Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, nil
	}
	p.gone = true
	p.bye.Store(bye)
	if p.timer != nil {
		p.timer.Stop()
	}
	stopped, p.stopped = p.stopped, nil
	return p.core.Leftovers(bye), stopped
}
