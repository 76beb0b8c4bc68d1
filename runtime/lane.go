package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/prefetch"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// lane receives one lane's messages and runs the turns of remote calls, one after another
// on one goroutine, as long as they are quick. Its other fields belong to the goroutine
// that has the run token.
type lane struct {
	runtoken.Token
	peers.Batch // sessions with something to publish, answers or acknowledgements
	driver      *driver
	ch          transport.Channel

	reader wire.FrameReader
	header wire.FrameHeader
	size   int // of the frame under way, in bytes
	from   *peers.Session
	at     time.Time // when the frame arrived
	rest   []byte    // the part of the frame under way that is not parsed yet
	seq    uint64    // of the next envelope
	ahead  readAhead // the envelopes that are parsed and not handled
	skip   uint32
	open   bool // a frame is under way
	// answered are calls of this process whose answers are in the current frame.
	answered []*pending.Call
	slow     runtoken.SlowTurnDetector
	kind     *kind   // of the previous call, and mostly of the next one
	spare    *inCall // a call whose turn has ended, for reuse
	// unpublished is the number of frames whose answers are in the Batch.
	unpublished int

	done chan struct{} // closed when the link has nothing more to receive
}

func newLane(drv *driver, ch transport.Channel) *lane {
	l := &lane{driver: drv, ch: ch, done: make(chan struct{})}
	l.Init(&drv.wg, l.resume)
	drv.watch.Mind(&l.Token)
	return l
}

// framesAPublish is the largest number of frames whose answers are published together
// while more frames wait to be received.
const framesAPublish = 8

// run handles messages until the link closes or another goroutine takes over the lane.
func (l *lane) run() {
	for {
		if l.open && !l.frame() {
			return // another goroutine has the lane now
		}
		m, ok := l.driver.link().TryReceive(l.ch)
		if !ok {
			l.slow.Rest()
			l.publish()
			var err error
			if m, err = l.driver.link().Receive(l.ch); err != nil {
				if !errors.Is(err, transport.ErrClosed) {
					l.driver.log.Error("lane stopped", "lane", int(l.ch), "err", err)
				}
				close(l.done)
				return
			}
		}
		l.message(m)
	}
}

// resume is run on a new goroutine, which takes over the lane from a turn that takes
// long or waits.
func (l *lane) resume() {
	l.slow.SlowDown()
	l.run()
}

// message begins a frame, or handles another message.
func (l *lane) message(m transport.Message) {
	drv := l.driver
	l.at = time.Now()
	if m.Kind == transport.Unreachable {
		drv.counters.add(frameBounced)
		drv.ctl.suspect(m.From, m.Server)
		if p := drv.peers.Known(m.From, int(l.ch)); p != nil {
			p.NobodyListens(m.Token)
		}
		return
	}
	h, rest, err := l.reader.Header(m.Payload)
	if err != nil {
		if n, tell := drv.counters.addSeldom(frameForeign); tell {
			drv.log.Warn("foreign bytes refused", "lane", int(l.ch), "bytes", len(m.Payload), "err", bounded.Error(err), "count", n)
		}
		return
	}
	p := drv.peers.Session(h.From, int(l.ch))
	if p == nil {
		drv.counters.add(frameIgnored)
		return
	}
	skip, dropped, ok := p.Receive(&h, l.at)
	if dropped {
		if p, _ = drv.data.Replace(p).(*peers.Session); p != nil {
			skip, _, ok = p.Receive(&h, l.at)
		}
	}
	if !ok {
		return
	}
	l.header, l.from, l.rest, l.seq, l.skip, l.open = h, p, rest, h.Seq, skip, true
	l.size = len(m.Payload)
}

// frame handles the rest of the frame under way. It reports whether this
// goroutine still has the lane.
func (l *lane) frame() bool {
	for l.seq < l.header.Seq+uint64(l.header.Count) {
		e, err := l.nextEnvelope()
		if e == nil {
			if n, tell := l.driver.counters.addSeldom(frameForeign); tell {
				l.driver.log.Warn("frame refused", "from", l.from.Peer().Address.String(), "err", bounded.Error(err), "count", n)
			}
			l.from.Handled.Store(l.header.Seq + uint64(l.header.Count) - 1)
			break
		}
		seq := l.seq
		l.seq = seq + 1
		if l.skip > 0 {
			l.skip--
			continue
		}
		if !l.envelope(e, seq) {
			return false
		}
	}
	l.ahead.clear()
	l.wake()
	h, p := l.header, l.from
	l.open, l.rest = false, nil
	if p.Received(&h, l.size) {
		l.PublishLater(p)
	}
	if h.Flags&wire.FlagBye != 0 {
		if p.Peer().Client {
			l.driver.peers.ClientLeft(p)
		} else {
			l.driver.data.PeerGone(p.Peer().Address, int(l.ch), true)
		}
	}
	if l.unpublished++; l.unpublished >= framesAPublish {
		l.publish()
	}
	return true
}

// publish publishes the envelopes that were appended to sessions since the last call.
func (l *lane) publish() {
	l.Publish()
	l.unpublished = 0
}

// answerLater appends an envelope to a session and publishes it with the next batch.
func (l *lane) answerLater(p *peers.Session, e *wire.Envelope) {
	if p == nil || !p.Answer(e, l) {
		l.driver.counters.add(dropNoPeer)
	}
}

// keep keeps a call for reuse by the lane; see inCall.recycle.
func (l *lane) keep(c *inCall) {
	if l.spare != nil {
		c.recycle()
		return
	}
	*c = inCall{}
	l.spare = c
}

// take returns an empty call.
func (l *lane) take() (c *inCall) {
	if c, l.spare = l.spare, nil; c == nil {
		c = inCalls.Get().(*inCall)
	}
	return c
}

// kindOf finds a kind by its name; nil where it is not known.
func (l *lane) kindOf(name []byte) *kind {
	if l.kind == nil || string(l.kind.name) != string(name) {
		l.kind = (*l.driver.kinds.Load())[string(name)]
	}
	return l.kind
}

// envelope handles one envelope from the lane's peer. It reports whether this
// goroutine still has the lane.
func (l *lane) envelope(e *wire.Envelope, seq uint64) bool {
	from := l.from
	switch e.Type {
	case wire.TypeCall, wire.TypeTell:
		return l.call(e, seq)
	case wire.TypeReply:
		if c := l.driver.answered(e); c != nil {
			l.answered = append(l.answered, c) // its caller is woken together with others
		}
	default:
		l.driver.data.Receive(from, int(l.ch), e)
	}
	from.Handled.Store(seq)
	return true
}

// call brings a call or a tell to its shard. It refuses envelopes before they are
// acknowledged, so their sender still has them.
func (l *lane) call(e *wire.Envelope, seq uint64) bool {
	drv, p := l.driver, l.from
	defer func() { // store the outcome of seq; a turn that runs has stored it already
		if p.Handled.Load() < seq {
			p.Handled.Store(seq)
		}
	}()
	k := l.kindOf(e.Kind)
	if k == nil || k.host == nil {
		return l.refuse(e, seq, shardhost.Refusal{Code: wire.CodeUnknownKind})
	}
	sh := k.host.shard(e.Shard)
	if sh == nil || len(e.Entity) == 0 || len(e.Entity) > maxIDBytes {
		return l.refuse(e, seq, shardhost.Refusal{
			Code: wire.CodeUnknownKind,
			Text: fmt.Sprintf("it has %d shards at %s, the caller's shard is %d", k.shards, drv.self.Name, e.Shard),
		})
	}
	if e.Type == wire.TypeTell {
		if ran, kept := l.tellFar(sh, e, seq); ran {
			return kept
		}
	}
	c := l.take()
	c.fill(drv, p.Peer(), e, int(l.ch), l.at)
	c.from, c.Frame = p, l.size
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

// refuse answers a call that is not accepted, with the next batch of answers.
func (l *lane) refuse(e *wire.Envelope, seq uint64, r shardhost.Refusal) bool {
	if to, answer := l.driver.data.Refuse(l.from, int(l.ch), e, seq, r); answer != nil {
		l.answerLater(to.(*peers.Session), answer)
	}
	return true
}

// wake wakes the callers whose answers have come. It counts all of them first, so that
// the write coalescer knows how many are about to call again.
func (l *lane) wake() {
	if len(l.answered) == 0 {
		return
	}
	l.driver.pending.Coalescer.Wake(len(l.answered))
	for i, c := range l.answered {
		l.answered[i] = nil
		c.Caller.Wake()
	}
	l.answered = l.answered[:0]
}

// readAhead are the next envelopes of a frame, parsed before the first of them is
// handled, so that the processor waits for all their cache misses at once, as in a
// runner's prefetch. The lane reuses the memory.
type readAhead struct {
	envelopes  [prefetch.Turns]wire.Envelope
	at, n      int  // the next one, and how many there are
	prefetched byte // keeps the compiler from dropping the reads of warmFor
}

// clear drops the references to the frame.
func (r *readAhead) clear() {
	clear(r.envelopes[:r.n])
	r.at, r.n = 0, 0
}

// nextEnvelope returns the next envelope of the frame under way; nil when the frame ends
// or goes on with something else.
func (l *lane) nextEnvelope() (*wire.Envelope, error) {
	r := &l.ahead
	if r.at == r.n {
		if err := l.readOn(); r.n == 0 {
			return nil, err
		}
		if r.n > 1 {
			r.prefetched = l.warmFor(r.envelopes[:r.n])
		}
	}
	r.at++
	return &r.envelopes[r.at-1], nil
}

// readOn parses the next envelopes, up to the frame's end or to bytes that are not an
// envelope. The error is returned again when the envelopes before it have been handled.
func (l *lane) readOn() error {
	r := &l.ahead
	before := r.n
	for r.at, r.n = 0, 0; r.n < len(r.envelopes); r.n++ {
		rest, ok, err := wire.NextEnvelope(l.rest, &r.envelopes[r.n])
		if !ok || err != nil {
			clear(r.envelopes[r.n:max(before, r.n+1)]) // envelopes of before, or parsed in part
			return err
		}
		l.rest = rest
	}
	return nil
}

// warmFor prefetches memory that the handling of the envelopes reads first: the entities
// and the user's structs of calls, and the table entries of this process's answered
// calls. It has no other effect, and its result has no meaning.
func (l *lane) warmFor(envelopes []wire.Envelope) (sum byte) {
	var entities [prefetch.Turns]*region.Entity
	for i := range envelopes {
		switch e := &envelopes[i]; e.Type {
		case wire.TypeCall, wire.TypeTell:
			entities[i] = l.likely(e)
		case wire.TypeReply:
			if c := l.driver.pending.At(e.ID); c != nil {
				sum += c.Touch()
			}
		}
	}
	for _, e := range entities {
		if e != nil {
			e.Busy() // reads its word
		}
	}
	for _, e := range entities {
		if e != nil && e.ID != "" {
			sum += e.ID[0] + prefetch.FirstByte(e)
		}
	}
	return sum
}

// likely returns the entity for which an envelope probably is, or nil.
func (l *lane) likely(e *wire.Envelope) *region.Entity {
	k := l.kindOf(e.Kind)
	if k == nil || k.host == nil || len(e.Entity) == 0 {
		return nil
	}
	sh := k.host.shard(e.Shard)
	if sh == nil {
		return nil
	}
	return sh.Core.Peek(region.Hash(wire.StringOf(e.Entity)))
}

// runTurn runs a remote call's turn, on the lane's goroutine unless turns take
// long. It reports whether this goroutine still has the lane afterwards.
func (l *lane) runTurn(sh *hostedShard, e *region.Entity, c *inCall) bool {
	l.wake() // a turn may take long
	if l.slow.IsSlow() && c.runAlone(sh, e, &l.slow) {
		return true
	}
	l.driver.watch.Awake()
	c.run = l.Enter()
	a := c.guarded(sh, e)
	if !c.run.Leave() {
		c.finish(sh, a, c.failed(), nil)
		return false
	}
	l.slow.Ran(c.began)
	sh.endTurnOf(c.turn(), c.failed())
	c.answer(sh.driver(), a, l)
	return true
}

// tellFar runs the turn of a tell that came directly from another process, without the
// shard's lock and without an inCall, if it may run at once. If not, ran is false and
// tellFar has done nothing. kept reports whether this goroutine still has the lane.
func (l *lane) tellFar(s *hostedShard, e *wire.Envelope, seq uint64) (ran, kept bool) {
	if !e.Node.IsZero() || e.Epoch == 0 || l.slow.IsSlow() || s.durable != nil {
		return false, false
	}
	name, id := wire.StringOf(e.Method), wire.StringOf(e.Entity)
	now, method := l.driver.lease.Now(), s.host.desc.Dispatch[name]
	if method == nil || !s.mayRunAt(now) {
		return false, false
	}
	entity := s.Core.Look(region.Hash(id), id)
	if entity == nil || !s.Entered(entity, entity.EnterUnder(placement.Epoch(e.Epoch))) {
		return false, false
	}
	l.from.Handled.Store(seq)
	l.wake() // a turn may take long
	l.driver.watch.Awake()
	if !runTell(s, method, entity, name, e.Payload, &l.Token) {
		return true, false
	}
	l.slow.Ran(now)
	return true, true
}
