package shard

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// lane receives one lane's messages and runs the turns of remote calls, one after another
// on one goroutine, as long as they are quick. Its other fields belong to the goroutine
// that has the run token.
type lane struct {
	runtoken.Token
	peers.Batch // sessions with something to publish, answers or acknowledgements
	plane       *plane
	ch          transport.Channel

	reader wire.FrameReader
	header wire.FrameHeader
	size   int // of the frame under way, in bytes
	from   *peers.Session
	at     time.Time // when the frame came
	rest   []byte    // the part of the frame under way that is not parsed yet
	seq    uint64    // of the next envelope
	ahead  readAhead // the envelopes that are parsed and not handled
	skip   uint32
	open   bool // a frame is under way
	// answered are this process's calls whose answers have come in the frame.
	answered []*pending.Call
	slow     runtoken.SlowTurnDetector
	kind     *kind   // of the call before; mostly of the next one too
	spare    *inCall // of a turn that has ended, to be used again
	// unpublished counts the frames whose answers are in the Batch.
	unpublished int

	done chan struct{} // closed when the link has nothing more to receive
}

func newLane(pl *plane, ch transport.Channel) *lane {
	l := &lane{plane: pl, ch: ch, done: make(chan struct{})}
	l.Init(&pl.wg, l.resume)
	pl.watch.Mind(&l.Token)
	return l
}

// framesAPublish is how many frames share one publication of their answers at
// most, while more are waiting to be received.
const framesAPublish = 8

// run handles messages until the link closes or the lane is taken away.
func (l *lane) run() {
	for {
		if l.open && !l.frame() {
			return // another goroutine has the lane now
		}
		m, ok := l.plane.link().TryReceive(l.ch)
		if !ok {
			l.slow.Rest()
			l.publish()
			var err error
			if m, err = l.plane.link().Receive(l.ch); err != nil {
				if !errors.Is(err, transport.ErrClosed) {
					l.plane.log.Error("lane stopped", "lane", int(l.ch), "err", err)
				}
				close(l.done)
				return
			}
		}
		l.message(m)
	}
}

// resume is run for a goroutine that goes on behind a turn that takes long, or
// waits.
func (l *lane) resume() {
	l.slow.SlowDown()
	l.run()
}

// message begins a frame, or handles another message.
func (l *lane) message(m transport.Message) {
	pl := l.plane
	l.at = time.Now()
	if m.Kind == transport.Unreachable {
		pl.counters.add(frameBounced)
		pl.ctl.suspect(m.From, m.Server)
		if p := pl.peers.Known(m.From, int(l.ch)); p != nil {
			p.NobodyListens(m.Token)
		}
		return
	}
	h, rest, err := l.reader.Header(m.Payload)
	if err != nil {
		if n, tell := pl.counters.addSeldom(frameForeign); tell {
			pl.log.Warn("foreign bytes refused", "lane", int(l.ch), "bytes", len(m.Payload), "err", bounded.Error(err), "count", n)
		}
		return
	}
	p := pl.peers.Session(h.From, int(l.ch))
	if p == nil {
		pl.counters.add(frameIgnored)
		return
	}
	skip, dropped, ok := p.Receive(&h, l.at)
	if dropped {
		if p = pl.peers.replaceSession(p); p != nil {
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
			if n, tell := l.plane.counters.addSeldom(frameForeign); tell {
				l.plane.log.Warn("frame refused", "from", l.from.Peer().Address.String(), "err", bounded.Error(err), "count", n)
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
			l.plane.peers.ClientLeft(p)
		} else {
			l.plane.peers.peerGone(p.Peer().Address, int(l.ch), true)
		}
	}
	if l.unpublished++; l.unpublished >= framesAPublish {
		l.publish()
	}
	return true
}

// publish sends the envelopes that were appended to sessions since.
func (l *lane) publish() {
	l.Publish()
	l.unpublished = 0
}

// answerLater appends an envelope to a session and publishes it with the next batch.
func (l *lane) answerLater(p *peers.Session, e *wire.Envelope) {
	if p == nil || !p.Answer(e, l) {
		l.plane.counters.add(dropNoPeer)
	}
}
