package sharding

import (
	"errors"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A link is a session with another process. It is the production code, on the world's network.
type link struct {
	peers.Stream
	process *process
	arrives time.Time // when the latest frame arrives at the peer
	before  []byte    // the latest frame that arrived at the peer
	wakes   int       // how often WakeAfter was called
}

var _ peers.StreamEnv = (*link)(nil)

// link returns the session with a peer, or nil if the peer was removed.
func (p *process) link(a transport.Address) *link {
	if a.IsZero() || p.gone[a] {
		return nil
	}
	l := p.links[a]
	if l == nil {
		o := p.w.process(a)
		cfg := stream.Config{Self: p.self, MaxPayload: 1 << 20, Window: 64 << 10, MaxBuffered: 8 << 20}
		if o.self.Client || p.self.Client {
			p.w.sessions++
			cfg.Session = p.w.sessions
		}
		l = &link{process: p}
		l.Init(l, cfg, o.self)
		p.links[a] = l
	}
	return l
}

// append adds an envelope to the link and makes it leave soon. ok is false if the peer was removed.
func (l *link) append(e *wire.Envelope) (seq uint64, ok bool) {
	if l == nil {
		return 0, false
	}
	seq, err := l.Append(e)
	if err != nil && !errors.Is(err, peers.ErrGone) {
		l.process.w.fail("%s: append: %v", l.process.name, err)
	}
	if err == nil {
		l.later()
	}
	return seq, err == nil
}

// Post adds an envelope that is no call. The envelope is lost if the peer was removed.
func (l *link) Post(e *wire.Envelope) { l.append(e) }

// remains closes the link and returns the envelopes that were not acknowledged.
func (l *link) remains(bye bool) calls.Left {
	left, stopped := l.Close(bye)
	return calls.Left{Session: l, Lane: theLane, Unacknowledged: left, Stopped: stopped}
}

// AppendAll adds the parts of a shard's state, which must leave now.
func (l *link) AppendAll(parts []*wire.Envelope) error {
	s := l.process.shards[placement.ShardID{Kind: string(parts[0].Kind), Shard: parts[0].Shard}]
	if s.Core.State() != region.Sent || s.Core.MoveEpoch() != placement.Epoch(parts[0].Epoch) {
		l.process.w.fail("%s sends %v at %v, which is %v", l.process.name, s.ID, placement.Epoch(parts[0].Epoch), s.Core.State())
	}
	return l.Stream.AppendAll(parts)
}

func (l *link) Flush() { l.later() }

// later publishes the link's envelopes after the present event.
func (l *link) later() {
	p := l.process
	if !slices.Contains(p.dirty, l) {
		if len(p.dirty) == 0 {
			p.after(0, p.publish)
		}
		p.dirty = append(p.dirty, l)
	}
}

func (l *link) Now() time.Time { return l.process.w.now }

var errBroken = errors.New("simulated: the connection is broken")

func (l *link) Send(token uint64, frame []byte) error {
	if !l.process.alive || !l.process.connected {
		return errBroken
	}
	var fr wire.FrameReader
	if h, _, err := fr.Header(frame); err != nil || h.Count > 0 && !l.process.mayAnswer() {
		l.process.w.fail("%s sends %d envelopes to %s after its lease has ended (%v)", l.process.name, h.Count, l.Peer().Name, err)
	}
	l.process.w.transmit(l, token, slices.Clone(frame))
	return nil
}

// Repack returns false: the broker accepts frames of any size, so smaller frames do not help.
func (l *link) Repack(uint64, int, error) bool { return false }

// MayAnswer reports whether the process's lease lets answers leave.
func (l *link) MayAnswer() bool { return l.process.mayAnswer() }

func (l *link) MaxPayload() int { return 1 << 20 }

// WakeAfter calls Tick later, unless it is called again before.
func (l *link) WakeAfter(d time.Duration) {
	l.wakes++
	n := l.wakes
	l.process.after(d, func() {
		if l.wakes == n {
			l.Tick()
		}
	})
}

// Yield does nothing, because there is only one thread.
func (l *link) Yield() {}

// Ignored does nothing: it is for clients that are not known any more.
func (l *link) Ignored(bool) {}
