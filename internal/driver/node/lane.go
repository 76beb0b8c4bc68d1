package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/direct"
	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// lane receives one lane's messages from the broker or a direct lane, and runs quick turns of
// remote calls. The fields below Token belong to the goroutine that has the run token.
type lane struct {
	runner.Token
	peers.Batch // sessions that have answers or acknowledgements to publish
	driver      *Driver
	ch          transport.Channel
	link        transport.Link // the link to the broker
	conn        *direct.Conn   // the direct lane; nil: messages come from the broker

	reader wire.FrameReader
	header wire.FrameHeader
	size   int               // bytes of the frame being handled
	from   *peers.Session    // the session with the sender of the current frame, or of the last one
	named  transport.Address // the sender in the subject of from's last frame
	at     time.Time         // when the current message arrived
	rest   []byte            // the part of the current frame that is not parsed yet
	seq    uint64            // sequence number of the next envelope
	next   wire.Envelope     // the current envelope; reused
	skip   uint32            // how many envelopes of the frame to skip, because they were handled before
	open   bool              // a frame is being handled
	deaf   bool              // the frame came after StopReceiving
	// answered are calls of this process whose answers came in the current frame.
	answered []*calls.Call
	slow     runner.SlowTurnDetector
	kind     *Kind   // the kind of the previous call, and usually of the next one
	spare    *InCall // a call whose turn has ended, for reuse

	done chan struct{} // closed when there is nothing more to receive
	end  func(error)   // called before done is closed, if it is not nil
}

func newLane(drv *Driver, ch transport.Channel, conn *direct.Conn) *lane {
	l := &lane{driver: drv, ch: ch, link: drv.Link(), conn: conn, done: make(chan struct{})}
	l.Init(&drv.Group, l.resume)
	drv.watch.Mind(&l.Token)
	return l
}

func (l *lane) run() {
	for {
		if l.open && !l.frame() {
			return // another goroutine has the lane now
		}
		var m transport.Message
		var ok bool
		if l.conn != nil {
			m, ok = l.conn.TryReceive()
		} else {
			m, ok = l.link.TryReceive(l.ch)
		}
		if !ok {
			l.slow.Rest()
			l.Publish()
			var err error
			if l.conn != nil {
				m, err = l.conn.Receive()
			} else {
				m, err = l.link.Receive(l.ch)
			}
			if err != nil {
				l.stop(err)
				return
			}
		}
		l.message(m)
	}
}

func (l *lane) stop(err error) {
	l.driver.watch.Unmind(&l.Token)
	if l.end != nil {
		l.end(err)
	} else if !errors.Is(err, transport.ErrClosed) {
		l.driver.Logger.Error("lane stopped", "lane", int(l.ch), "err", err)
	}
	close(l.done)
}

// resume runs the lane on a new goroutine, because a long turn keeps the goroutine that ran the
// lane.
func (l *lane) resume() {
	l.slow.SlowDown()
	l.run()
}

// denied fails the calls that the lane has sent to the process at to, because the broker does not
// let this process publish to that one. If to is zero, the lane cannot connect, and denied fails
// all calls of the lane. The outcome of a failed call may be unknown, because an earlier attempt of
// the call may have arrived.
func (l *lane) denied(to transport.Address, why string) {
	l.driver.Pending.CompleteSent(func(s calls.Carrier) bool {
		p, ok := s.(*peers.Session)
		return ok && p.Lane() == int(l.ch) && (to.IsZero() || p.Peer().Address == to)
	}, calls.Result{Code: calls.Denied, Text: why})
}

var errFrame = fmt.Errorf("a frame of more than %d bytes", stream.FrameBytes)

// message handles a message. Of a frame it parses only the header; the method frame handles the
// envelopes.
func (l *lane) message(m transport.Message) {
	drv := l.driver
	l.at = time.Now()
	if m.Kind == transport.Unreachable && len(m.Payload) > 0 {
		l.denied(m.From, string(m.Payload))
		return
	}
	if m.Kind == transport.Unreachable {
		drv.Counts.Add(frameBounced)
		drv.Control.Suspect(m.From)
		if p := drv.Sessions.Known(m.From, int(l.ch)); p != nil {
			p.NobodyListens(m.Token)
		}
		return
	}
	h, rest, err := l.reader.Header(m.Payload)
	again := err == nil && l.isFrom(m.From, h.From)
	switch {
	case err != nil:
	case !again && (!wire.Vouched(m, h.From) || l.conn != nil && h.From != l.conn.Peer()):
		err = wire.ErrForged
	case h.From.Client && h.Count > 1 && len(m.Payload) > stream.FrameBytes: // else one frame keeps the lane for long
		err = errFrame
	}
	if err != nil {
		if n, tell := drv.AddSeldomOf(FrameForeign, m.From.Name); tell {
			drv.Logger.Warn("foreign bytes refused", "lane", int(l.ch), "from", m.From.Name, "bytes", len(m.Payload), "err", bounded.Error(err), "count", n)
		}
		if l.conn != nil {
			l.conn.Fail(agree.Forged)
		}
		return
	}
	p := l.from
	if !again || p.HasDeparted() {
		p = drv.Sessions.Session(h.From, int(l.ch))
	}
	if p == nil {
		drv.Counts.Add(FrameIgnored)
		return
	}
	if l.conn != nil {
		l.carry(p)
	}
	p.Receiving.Lock() // until the frame's end
	skip, dropped, ok := p.Receive(&h, l.at)
	if dropped {
		p.Receiving.Unlock()
		if p, _ = drv.Data.Replace(p).(*peers.Session); p == nil {
			return
		}
		p.Receiving.Lock()
		skip, _, ok = p.Receive(&h, l.at)
	}
	if !ok {
		p.Receiving.Unlock()
		return
	}
	l.named = m.From
	l.header, l.from, l.rest, l.seq, l.skip, l.open = h, p, rest, h.Seq, skip, true
	l.size = len(m.Payload)
	l.deaf = drv.deaf.Load()
}

func (l *lane) isFrom(named transport.Address, sender transport.Peer) bool {
	return l.from != nil && named == l.named && sender == l.from.Peer()
}

// carry makes the direct lane carry the frames of session p.
func (l *lane) carry(p *peers.Session) {
	if p.DirectLane() == peers.DirectLane(l.conn) || l.conn.HasEnded() {
		return
	}
	p.Use(l.conn)
	if l.conn.HasEnded() {
		p.Leave(l.conn)
	}
}

func (l *lane) frame() bool {
	for l.seq < l.header.Seq+uint64(l.header.Count) {
		e := &l.next
		rest, ok, err := wire.NextEnvelope(l.rest, e)
		if !ok || err != nil {
			if n, tell := l.driver.AddSeldomOf(FrameForeign, l.from.Peer().Name); tell {
				l.driver.Logger.Warn("frame refused", "from", l.from.Peer().Address.String(), "err", bounded.Error(err), "count", n)
			}
			if !l.deaf {
				l.from.Handled.Store(l.header.Seq + uint64(l.header.Count) - 1)
			}
			break
		}
		seq := l.seq
		l.rest, l.seq = rest, seq+1
		if l.skip > 0 {
			l.skip--
			continue
		}
		if l.deaf {
			l.overhear(e)
		} else if !l.envelope(e, seq) {
			return false
		}
	}
	l.next = wire.Envelope{} // drop the references to the frame
	l.wake()
	h, p := l.header, l.from
	l.open, l.rest = false, nil
	more := p.Received(&h, l.size)
	p.Receiving.Unlock()
	if more {
		l.PublishLater(p)
	}
	if h.Flags&wire.FlagBye != 0 {
		if p.Peer().Client {
			l.driver.Sessions.ClientLeft(p)
		} else {
			l.driver.Data.PeerGone(p.Peer().Address, int(l.ch), true)
		}
	}
	l.Publish()
	return true
}

func (l *lane) answerLater(p *peers.Session, e *wire.Envelope) {
	if p == nil || !p.Answer(e, l) {
		l.driver.Counts.Add(dropNoPeer)
	}
}

func (l *lane) keep(c *InCall) {
	if l.spare != nil {
		c.recycle()
		return
	}
	*c = InCall{}
	l.spare = c
}

func (l *lane) take() (c *InCall) {
	if c, l.spare = l.spare, nil; c == nil {
		c = inCalls.Get().(*InCall)
	}
	return c
}

func (l *lane) kindOf(name []byte) *Kind {
	if l.kind == nil || string(l.kind.name) != string(name) {
		l.kind = (*l.driver.Kinds.Load())[string(name)]
	}
	return l.kind
}

// envelope handles one envelope. It reports whether this goroutine still has the lane.
func (l *lane) envelope(e *wire.Envelope, seq uint64) bool {
	from := l.from
	if from.Peer().Client && !e.MayComeFrom(from.Class(), l.driver) {
		if n, tell := l.driver.AddSeldomOf(MessageForbidden, from.Peer().Name); tell {
			l.driver.Logger.Warn("envelope of a client refused", "from", from.Peer().Address.String(), "type", int(e.Type), "count", n)
		}
		if (e.Type == wire.TypeCall || e.Type == wire.TypeTell) && from.Class() == identity.Client {
			e.Node = transport.Peer{} // the answer goes to the sender, and to no process that it names
			l.refuse(e, seq, shardhost.Refusal{Code: wire.CodeForbidden, Text: wire.MissingRight(from.Peer(), e)})
		}
		from.Handled.Store(seq)
		return true
	}
	switch e.Type {
	case wire.TypeCall, wire.TypeTell:
		return l.call(e, seq)
	case wire.TypeAnswer:
		if c := l.takeAnswer(e); c != nil {
			l.answered = append(l.answered, c) // its caller is woken together with others
		}
	default:
		l.driver.Data.Receive(from, int(l.ch), e)
	}
	from.Handled.Store(seq)
	return true
}

// overhear handles an envelope that arrives after this process has left. It accepts answers to this
// process's own calls, and refusals of them. It ignores all other envelopes.
func (l *lane) overhear(e *wire.Envelope) {
	switch e.Type {
	case wire.TypeAnswer:
		if c := l.takeAnswer(e); c != nil {
			l.answered = append(l.answered, c)
		}
	case wire.TypeRefusal:
		l.driver.Data.Receive(l.from, int(l.ch), e)
	}
}

// takeAnswer removes the call that e answers from the pending calls and returns it; nil if there is
// none. The lane must then wake the call's caller.
func (l *lane) takeAnswer(e *wire.Envelope) *calls.Call {
	if e.Code == wire.CodeMoved {
		l.driver.Data.Learn(e)
	}
	c := l.driver.Pending.Remove(e.ID)
	if c == nil {
		l.driver.Counts.Add(answerUnclaimed)
		return nil
	}
	c.Answer(calls.Result{Payload: e.Payload, Code: e.Code, Text: string(e.Text)})
	return c
}

// call brings an ask or a tell to its shard. It reports whether this goroutine still has the lane.
// A refusal is sent before the envelope is acknowledged: the sender still needs the envelope then,
// but keeps only unacknowledged ones.
func (l *lane) call(e *wire.Envelope, seq uint64) bool {
	drv, p := l.driver, l.from
	defer func() { // store the outcome of seq; a turn that runs has stored it already
		if p.Handled.Load() < seq {
			p.Handled.Store(seq)
		}
	}()
	k := l.kindOf(e.Kind)
	if k == nil || k.Host == nil {
		return l.refuse(e, seq, shardhost.Refusal{Code: wire.CodeUnknownKind})
	}
	sh := k.Hosted(e.Shard)
	if sh == nil || len(e.Entity) == 0 && !listsShard(e) || len(e.Entity) > maxIDBytes {
		return l.refuse(e, seq, shardhost.Refusal{
			Code: wire.CodeUnknownKind,
			Text: fmt.Sprintf("it has %d shards at %s, the caller's shard is %d", k.Shards, drv.Local.Name, e.Shard),
		})
	}
	if p.Peer().Client && e.Type == wire.TypeCall && p.Core.Account.Excess() != stream.Within {
		return l.refuse(e, seq, shardhost.Refusal{Code: wire.CodeOverloaded, Text: unacknowledged(p)})
	}
	c := l.take()
	c.fill(drv, p.Peer(), e, int(l.ch), l.at)
	c.from, c.Frame = p, uint32(l.size)
	entity, v := sh.Deliver(&c.Call, l.at, nil)
	if v == region.Run {
		p.Handled.Store(seq)
		return l.runTurn(sh, entity, c)
	}
	if r, refused := sh.Refusal(&c.Call, v); refused {
		l.refuse(e, seq, r)
	}
	return true
}

func (l *lane) refuse(e *wire.Envelope, seq uint64, r shardhost.Refusal) bool {
	if to, answer := l.driver.Data.Refuse(l.from, int(l.ch), e, seq, r); answer != nil {
		l.answerLater(to.(*peers.Session), answer)
	}
	return true
}

// wake wakes the callers whose answers have come. Before that it gives the Coalescer the number of
// these callers, because they will probably make their next calls together.
func (l *lane) wake() {
	if len(l.answered) == 0 {
		return
	}
	l.driver.Pending.Coalescer.Wake(len(l.answered))
	for i, c := range l.answered {
		l.answered[i] = nil
		c.Wake()
	}
	l.answered = l.answered[:0]
}

func (l *lane) runTurn(sh *HostedShard, e *region.Entity, c *InCall) bool {
	l.wake() // a turn may take long
	if l.slow.IsSlow() && c.runAlone(sh, e, &l.slow) {
		return true
	}
	c.run = l.Enter()
	a := c.guarded(sh, e)
	if !c.run.Leave() {
		c.finish(sh, e, a, nil)
		return false
	}
	l.slow.Ran(c.began)
	sh.endTurnOf(e, c.after(), c.failed)
	c.answer(sh.driver(), a, l)
	return true
}
