package peers

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// MinPayload is the smallest payload limit, in bytes, that the broker must have. It leaves room for
// an id, the names, and some state or arguments.
const MinPayload = 8 << 10

// A Session is the session with a peer on one lane. It connects a Stream to this process by
// sessionEnv, and decides when appended envelopes are published. It is safe for concurrent use.
type Session struct {
	Stream
	path
	set   *Set
	lane  transport.Channel
	class identity.Class // of the peer
	link  transport.Link
	// Receiving is held from Receive to Received, so that one frame of the peer is handled at a
	// time, although frames may come by the broker and a direct lane at once. The goroutine that unlocks it
	// may not be the one that locked it.
	Receiving sync.Mutex
	retries   uint64 // Core.Retries when stalled last read it
	// queued, timer and probed are guarded by the session's lock.
	queued bool // the session waits for the pump, or for the last of the woken callers
	timer  *time.Timer
	probed time.Time // when an acknowledgement was last sent to learn whether the client still listens
}

func newSession(s *Set, to transport.Peer, lane transport.Channel) *Session {
	p := &Session{set: s, lane: lane, class: identity.Of(to.Incarnation), link: s.cfg.Link()}
	p.Init((*sessionEnv)(p), s.configLocked(to), to)
	return p
}

// Class returns the peer's class, which decides what envelopes the peer may send.
func (p *Session) Class() identity.Class { return p.class }

// Lane returns the lane of the session.
func (p *Session) Lane() int { return int(p.lane) }

// DirectLane returns the direct lane that carries the session's frames; nil if the broker carries
// them.
func (p *Session) DirectLane() DirectLane { return p.direct() }

// Use makes the direct lane c carry the session's frames, unless another direct lane carries them.
// It also sends the unacknowledged frames again on c. Otherwise later frames on c would overtake
// the frames that the broker still carries. The peer drops frames that it gets twice.
func (p *Session) Use(c DirectLane) {
	p.Lock()
	used := p.use(c)
	if used {
		p.retries = p.Core.Retries()
		p.Core.Rewind()
	}
	p.Unlock()
	if used {
		p.Flush()
	}
}

// Leave makes the broker carry the session's frames, if c carries them now. Frames that c may have
// lost are sent again.
func (p *Session) Leave(c DirectLane) {
	if p.leave(c) {
		p.Rewind()
	}
}

// Post appends an envelope that is not a call, and publishes it. If the peer has departed, the
// envelope is counted and dropped.
func (p *Session) Post(e *wire.Envelope) {
	if err := p.append(e); err == nil {
		p.Flush()
	}
}

func (p *Session) append(e *wire.Envelope) error {
	_, err := p.Append(e)
	if err != nil {
		p.set.env.Count(NoPeer)
	}
	return err
}

// Answer appends an envelope that is not a call. It then leaves publishing to the Publisher, or
// publishes at once if the Publisher is nil. Answer reports false if the peer has departed. If a
// client leaves too many bytes unacknowledged, Answer appends a smaller envelope or none: see
// stream.Account.
func (p *Session) Answer(e *wire.Envelope, by Publisher) bool {
	p.Lock()
	if a := p.Core.Account; a.Excess() >= stream.Crowded {
		kept := a.Excuse(e)
		if kept != e {
			p.set.env.Count(AnswerDropped)
		}
		if e = kept; e == nil {
			p.Unlock()
			return true
		}
	}
	_, err := p.AppendLocked(e)
	if errors.Is(err, stream.ErrTooLarge) && e.Type == wire.TypeAnswer {
		_, err = p.AppendLocked(tooLarge(e, err))
	}
	if err == nil && by == nil && !p.WritingLocked() {
		p.PublishLocked(false)
	}
	p.Unlock()
	if err == nil && by != nil {
		by.PublishLater(p)
	}
	return err == nil
}

func tooLarge(reply *wire.Envelope, err error) *wire.Envelope {
	code := reply.Code
	if code == wire.CodeOK {
		code = wire.CodeTooLarge
	}
	return &wire.Envelope{Type: wire.TypeAnswer, ID: reply.ID, Code: code, Text: []byte(err.Error())}
}

// A By says which goroutine publishes envelopes that were appended while no goroutine was
// publishing the session. The appending goroutine passes a By to PublishUnlock. Two kinds of
// envelopes need no By: Answer or its Publisher publishes answers, and pump.run publishes the
// envelopes of sessions that were given to a pump.
type By uint8

const (
	// Together means the goroutine that appends. But if callers were just woken, they will probably
	// call again: then the last of these callers publishes, so that one frame has all their calls.
	Together By = iota
	// Alone is Together for a single call. On an idle session the caller publishes at once, so that
	// a lone call never waits. If more than yieldAbove calls are running, the caller first lets
	// others append their calls.
	Alone
	// Pumped means the lane's pump. It suits a goroutine that goes on at once and may append more.
	Pumped
)

// yieldAbove is the number of running calls above which a goroutine lets others append before it
// publishes. That makes remote calls a tenth to a fifth faster (bench/README.md).
const yieldAbove = 2

// PublishUnlock publishes appended envelopes, or leaves this to the goroutine that by names. It
// unlocks the session.
func (p *Session) PublishUnlock(by By) {
	calls := p.set.cfg.Calls
	switch {
	case p.WritingLocked() || p.queued:
		p.Unlock()
	case by == Pumped:
		p.queued = true
		p.Unlock()
		p.Publish()
	case calls.Woken() > 0:
		p.queued = true
		p.Unlock()
		calls.Delay(p)
	default:
		p.PublishLocked(by == Alone && calls.UnderWay() > yieldAbove)
		p.Unlock()
	}
}

// Publish gives the session to its lane's pump. The caller has set queued.
func (p *Session) Publish() {
	q := &p.set.pumps[p.lane]
	q.mu.Lock()
	q.sessions = append(q.sessions, p)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// NobodyListens handles the broker's report that nobody received the frame with the given token.
func (p *Session) NobodyListens(token uint64) {
	absent, a := p.Bounced(token), p.Peer().Address
	if p.Peer().Client && absent > time.Duration(p.set.patient.Load()) {
		p.set.expire(a)
	}
	if p.set.HasLeft(a) {
		p.partIfStranger()
	}
}

// partIfStranger ends the session with a member that has left, if no frame ever reached the member
// on this session.
func (p *Session) partIfStranger() {
	if p.Unreached() {
		p.set.env.Stranger(p)
	}
}

func (p *Session) inUse() bool {
	p.Lock()
	defer p.Unlock()
	return !p.DepartedLocked() && p.UsedLocked()
}

// Unsettled reports whether a peer that has not departed has yet to acknowledge envelopes.
func (p *Session) Unsettled() bool {
	p.Lock()
	defer p.Unlock()
	return !p.DepartedLocked() && p.UnackedLocked(p.Core.Next()-1) > 0
}

// Silence returns for how long the peer has sent nothing; 0 if it never sent anything.
func (p *Session) Silence(now time.Time) time.Duration {
	p.Lock()
	defer p.Unlock()
	if p.HeardLocked().IsZero() {
		return 0
	}
	return now.Sub(p.HeardLocked())
}

// shrinkLocked packs waiting envelopes again for a smaller payload limit. It passes envelopes that
// are too large to Env.Oversize. It reports false if sending the frame again would not help.
func (p *Session) shrinkLocked(token uint64, size int) bool {
	limit := p.link.MaxPayload()
	if token == 0 || size <= limit {
		return false
	}
	if limit < MinPayload {
		p.set.env.Count(LimitTooLow)
		return false
	}
	over := p.Core.Shrink(token, limit)
	for i := range over {
		p.set.env.Oversize(p, &over[i])
	}
	return true
}

// CheckPayload returns an error if the payload limit of the link's broker is below MinPayload.
func CheckPayload(l transport.Link) error {
	if n := l.MaxPayload(); n < MinPayload {
		return fmt.Errorf("the broker accepts messages of %d bytes: want at least %d (raise its max_payload)", n, MinPayload)
	}
	return nil
}

type sessionEnv Session

var _ StreamEnv = (*sessionEnv)(nil)

func (v *sessionEnv) Now() time.Time { return time.Now() }

// Send sends a frame over the direct lane or, if there is none, through the broker.
func (v *sessionEnv) Send(token uint64, frame []byte) error {
	if token != 0 {
		v.set.frames.Add(1)
		if sent := v.set.sent.Load(); sent != nil {
			(*sent)(frame)
		}
	}
	direct := v.path.lane.Load()
	if direct == nil {
		if token != 0 && v.set.cfg.Direct {
			v.ask()
		}
		return v.link.Send(v.lane, v.Peer(), token, frame)
	}
	return v.sendDirect(*direct, token, frame)
}

// sendDirect sends a frame over c. If c has stalled or ended, the session leaves it.
func (v *sessionEnv) sendDirect(c DirectLane, token uint64, frame []byte) error {
	if len(frame) > MinPayload && len(frame) > v.link.MaxPayload() {
		return fmt.Errorf("send to %v: %w", v.Peer().Address, transport.ErrTooLarge)
	}
	if v.stalled(c) {
		return v.link.Send(v.lane, v.Peer(), token, frame)
	}
	if c.Send(frame) == nil {
		if token != 0 {
			v.set.direct.Add(1)
		}
		return nil
	}
	v.leave(c)
	if token == 0 {
		return v.link.Send(v.lane, v.Peer(), token, frame)
	}
	// The frame counts as sent, for it may have arrived. It is sent again with all others that the
	// direct lane may have lost.
	v.Lock()
	v.Core.Rewind()
	v.Unlock()
	return nil
}

func (v *sessionEnv) ask() {
	if v.mayAsk(int64(time.Since(v.set.base))) {
		v.set.env.Wanted((*Session)(v))
	}
}

// stalled reports whether the peer has acknowledged nothing for stream.RetryAfter. If so, the
// session leaves the direct lane c, which may be broken, until frames arrive on c again.
func (v *sessionEnv) stalled(c DirectLane) bool {
	v.Lock()
	retries := v.Core.Retries()
	stalled := retries != v.retries
	v.retries = retries
	v.Unlock()
	if stalled && v.leave(c) {
		c.Stalled()
	}
	return stalled
}

// Repack adapts frames to a smaller payload limit of the broker.
func (v *sessionEnv) Repack(token uint64, size int, err error) bool {
	return errors.Is(err, transport.ErrTooLarge) && (*Session)(v).shrinkLocked(token, size)
}

// MayAnswer reports whether this node's lease allows sending answers.
func (v *sessionEnv) MayAnswer() bool { return v.set.cfg.MayAnswer() }

// MaxPayload returns the broker's payload limit in bytes, at least MinPayload.
func (v *sessionEnv) MaxPayload() int { return max(v.link.MaxPayload(), MinPayload) }

// WakeAfter makes the stream's Tick be called after d.
func (v *sessionEnv) WakeAfter(d time.Duration) {
	if v.timer == nil {
		v.timer = time.AfterFunc(d, v.tick)
	} else {
		v.timer.Reset(d)
	}
}

func (v *sessionEnv) tick() {
	if !v.set.env.Closed() {
		v.Tick()
	}
}

func (v *sessionEnv) Yield() { runtime.Gosched() }

// Ignored counts an ignored frame. If the frame was a client's goodbye, Ignored closes the session.
func (v *sessionEnv) Ignored(bye bool) {
	v.set.env.Count(FrameIgnored)
	if bye {
		v.set.ClientLeft((*Session)(v))
	}
}

// A Publisher publishes sessions with appended envelopes, at once or together with others.
type Publisher interface{ PublishLater(p *Session) }

// A Batch collects sessions for one goroutine, which appends many envelopes and then publishes all
// the sessions. The zero value is empty.
type Batch struct{ sessions []*Session }

// PublishLater adds the session to the batch.
func (b *Batch) PublishLater(p *Session) {
	for _, s := range b.sessions {
		if s == p {
			return
		}
	}
	b.sessions = append(b.sessions, p)
}

// Publish publishes the sessions, and empties the batch.
func (b *Batch) Publish() {
	for i, p := range b.sessions {
		p.Lock()
		p.PublishUnlock(Together)
		b.sessions[i] = nil
	}
	b.sessions = b.sessions[:0]
}

// Pumps gives sessions to their lanes' pumps, so that envelopes of many goroutines share frames.
type Pumps struct{}

// PublishLater gives the session to its lane's pump.
func (Pumps) PublishLater(p *Session) {
	p.Lock()
	p.PublishUnlock(Pumped)
}

// A pump publishes the sessions of one lane on its own goroutine, so that senders never wait for
// the sending. Without pumps, remote tells of one sender run at 0.4 of their rate (What each trick
// buys in bench/README.md).
type pump struct {
	mu       sync.Mutex
	sessions []*Session
	signal   chan struct{}
}

func (q *pump) run(stop <-chan struct{}) {
	var spare []*Session
	for {
		select {
		case <-stop:
			return
		case <-q.signal:
		}
		q.mu.Lock()
		sessions := q.sessions
		q.sessions = spare[:0]
		q.mu.Unlock()
		for i, p := range sessions {
			p.Lock()
			p.queued = false
			if !p.WritingLocked() {
				p.PublishLocked(true)
			}
			p.Unlock()
			sessions[i] = nil
		}
		spare = sessions
	}
}
