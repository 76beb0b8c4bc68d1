package shard

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// lane receives one lane's messages and runs the turns of remote calls, one
// after another on one goroutine, as long as they are quick. A turn that takes
// long, or waits for a call of its own, hands the lane over: another goroutine
// goes on with the rest, and the first one only ends its turn.
//
// word arbitrates: it is odd while a turn runs, and whoever raises it by one at
// that moment has the lane: the runner when its turn ends, or a thief. All other
// fields belong to whoever has the lane.
type lane struct {
	plane *plane
	ch    transport.Channel
	word  atomic.Uint64

	reader wire.FrameReader
	header wire.FrameHeader
	from   *path
	at     time.Time // when the frame came
	rest   []byte    // of the frame under way
	seq    uint64    // of the next envelope in rest
	skip   uint32
	open   bool    // a frame is under way
	dirty  []*path // paths with something to publish, answers or acknowledgements
	// answered are this process's calls whose answers have come in the frame.
	answered []*pendingCall
	// unpublished counts the frames whose answers are in dirty.
	unpublished int

	seen uint64        // the watchdog's: word at its last look
	done chan struct{} // closed when the link has nothing more to receive
}

func newLane(pl *plane, ch transport.Channel) *lane {
	return &lane{plane: pl, ch: ch, done: make(chan struct{})}
}

// framesAPublish is how many frames share one publication of their answers at
// most, while more are waiting to be received.
const framesAPublish = 8

// laneRun is a turn's hold on the lane it runs on.
type laneRun struct {
	lane *lane
	word uint64 // odd
}

// enter marks that a turn begins on the lane's goroutine.
func (l *lane) enter() laneRun { return laneRun{lane: l, word: l.word.Add(1)} }

// leave marks that the turn ended. It reports whether the lane still belongs to
// this goroutine.
func (r laneRun) leave() bool { return r.lane.word.CompareAndSwap(r.word, r.word+1) }

// handOver lets another goroutine go on with the lane, if this turn still has it.
func (r laneRun) handOver() {
	if r.lane != nil && r.leave() {
		r.lane.plane.wg.Go(r.lane.run)
	}
}

// run handles messages until the link closes or the lane is taken away.
func (l *lane) run() {
	for {
		if l.open && !l.frame() {
			return // another goroutine has the lane now
		}
		m, ok := l.plane.link().TryReceive(l.ch)
		if !ok {
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
		l.plane.watch.awake()
		l.message(m)
	}
}

// message begins a frame, or handles what is not one.
func (l *lane) message(m transport.Message) {
	pl := l.plane
	l.at = time.Now()
	if m.Kind == transport.Unreachable {
		pl.ledger.add(frameBounced)
		pl.ctl.suspect(m.From, m.Server)
		if p := pl.knownPath(m.From, int(l.ch)); p != nil {
			p.bounced(m.Token)
		}
		return
	}
	h, rest, err := l.reader.Header(m.Payload)
	if err != nil {
		if n, tell := pl.ledger.addSeldom(frameForeign); tell {
			pl.log.Warn("foreign bytes refused", "lane", int(l.ch), "bytes", len(m.Payload), "err", err, "count", n)
		}
		return
	}
	p := pl.path(h.From, int(l.ch))
	if p == nil {
		pl.ledger.add(frameIgnored)
		return
	}
	skip, ok := p.receive(&h, l.at)
	if !ok {
		return
	}
	l.header, l.from, l.rest, l.seq, l.skip, l.open = h, p, rest, h.Seq, skip, true
}

// frame handles the rest of the frame under way. It reports whether this
// goroutine still has the lane.
func (l *lane) frame() bool {
	var e wire.Envelope
	for l.seq < l.header.Seq+uint64(l.header.Count) {
		rest, ok, err := wire.NextEnvelope(l.rest, &e)
		if !ok || err != nil {
			if n, tell := l.plane.ledger.addSeldom(frameForeign); tell {
				l.plane.log.Warn("frame refused", "from", l.from.peer.Address, "err", err, "count", n)
			}
			l.from.handled.Store(l.header.Seq + uint64(l.header.Count) - 1)
			break
		}
		seq := l.seq
		l.rest, l.seq = rest, seq+1
		if l.skip > 0 {
			l.skip--
			continue
		}
		if !l.envelope(&e, seq) {
			return false
		}
	}
	l.wake()
	h, p := l.header, l.from
	l.open, l.rest = false, nil
	if p.received(&h) {
		l.publishLater(p)
	}
	if h.Flags&wire.FlagBye != 0 {
		if p.peer.Client {
			l.plane.dropPeer(p.peer.Address)
		} else {
			l.plane.peerGone(p.peer.Address, int(l.ch), true)
		}
	}
	if l.unpublished++; l.unpublished >= framesAPublish {
		l.publish()
	}
	return true
}

// publish sends what has gathered on paths since.
func (l *lane) publish() {
	for i, p := range l.dirty {
		p.depart()
		l.dirty[i] = nil
	}
	l.dirty, l.unpublished = l.dirty[:0], 0
}

// answerLater appends an envelope to a path and publishes it with the next batch.
func (l *lane) answerLater(p *path, e *wire.Envelope) {
	if p == nil || !p.answer(e, l) {
		l.plane.ledger.add(dropNoPeer)
	}
}

// publishLater has the path published with the next batch.
func (l *lane) publishLater(p *path) {
	for _, d := range l.dirty {
		if d == p {
			return
		}
	}
	l.dirty = append(l.dirty, p)
}

// watchdog takes the lane from turns that run for over a millisecond. It sleeps
// while no lane has anything to do.
type watchdog struct {
	lanes  []*lane
	asleep atomic.Bool
	wake   chan struct{}
}

func (w *watchdog) init(lanes []*lane) {
	w.lanes, w.wake = lanes, make(chan struct{}, 1)
}

// awake tells the watchdog that a lane is busy.
func (w *watchdog) awake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// idleLooks is how often the watchdog looks at idle lanes before it sleeps.
const idleLooks = 20

func (w *watchdog) run(stop <-chan struct{}) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for idle := 0; ; {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if w.look() {
			idle = 0
			continue
		}
		if idle++; idle < idleLooks {
			continue
		}
		idle = 0
		ticker.Stop()
		w.asleep.Store(true)
		if w.look() && w.asleep.CompareAndSwap(true, false) {
			ticker.Reset(time.Millisecond)
			continue // a lane became busy before it could wake this goroutine
		}
		select {
		case <-stop:
			return
		case <-w.wake:
		}
		ticker.Reset(time.Millisecond)
	}
}

// look hands over lanes whose turn has not changed since the last look, and
// reports whether any lane did something.
func (w *watchdog) look() (busy bool) {
	for _, l := range w.lanes {
		word := l.word.Load()
		if word != l.seen {
			busy = true
		} else if word%2 == 1 {
			busy = true
			laneRun{lane: l, word: word}.handOver()
		}
		l.seen = word
	}
	return busy
}
