package singleton

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A link is the ordered way to another process: an envelope arrives, late if the brokers do
// not connect the two, unless one of them ends or parts with the other. The session that
// ships runs in package sharding's simulation.
type link struct {
	from, to *actor
	seq      uint64
	queue    []*wire.Envelope // that has not arrived
}

var _ shardhost.Session = (*link)(nil)

// link is the way to a process; nil if that was removed.
func (a *actor) link(to transport.Address) *link {
	other := a.run.actors[to]
	if other == nil || a.gone[to] {
		return nil
	}
	l := a.links[to]
	if l == nil {
		l = &link{from: a, to: other}
		a.links[to] = l
	}
	return l
}

// Peer is the process at the other end.
func (l *link) Peer() transport.Peer { return l.to.self }

// Append adds an envelope.
func (l *link) Append(e *wire.Envelope) (uint64, error) {
	if l.from.gone[l.to.self.Address] {
		return 0, peers.ErrGone
	}
	if l.to.killed {
		l.from.run.mayLose = true // it is not known yet that nobody will take it
	}
	c := *e
	c.Kind, c.Payload, c.Text = slices.Clone(e.Kind), slices.Clone(e.Payload), slices.Clone(e.Text)
	l.seq++
	l.queue = append(l.queue, &c)
	if len(l.queue) == 1 {
		l.next(l.from.run.delay())
	}
	return l.seq, nil
}

// AppendAll adds envelopes.
func (l *link) AppendAll(parts []*wire.Envelope) error {
	for _, e := range parts {
		if _, err := l.Append(e); err != nil {
			return err
		}
	}
	return nil
}

// Flush does nothing: envelopes are on their way already.
func (l *link) Flush() {}

// next has the first envelope arrive after d, or later.
func (l *link) next(d time.Duration) {
	l.from.run.world.After(d, func() {
		if !l.from.run.reaches(l.from, l.to) && !l.from.over() && !l.to.over() {
			l.next(pollEvery)
			return
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		if len(l.queue) > 0 {
			l.next(l.from.run.delay())
		}
		l.to.do(func() { l.arrive(e) })
	})
}

// arrive gives an envelope to the shard.
func (l *link) arrive(e *wire.Envelope) {
	back := l.to.link(l.from.self.Address)
	if back == nil {
		return // nothing is taken from it any more
	}
	if !l.to.shard.Step(back, e, l.to.instance.PredecessorOpened) {
		l.to.run.fail("%s: an envelope of type %d is no step of a handoff", l.to.self.Name, e.Type)
	}
}
