package sharding

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
)

// A spell is the time until which a process receives nothing, and the time until which its messages
// are lost.
type spell struct{ deaf, mute time.Time }

// isolate drops all messages to a process, from it, or both, for a time.
func (w *world) isolate(p *process, in, out bool, d time.Duration) {
	over := w.now.Add(d)
	if in && p.cut.deaf.Before(over) {
		p.cut.deaf = over
	}
	if out && p.cut.mute.Before(over) {
		p.cut.mute = over
	}
	w.lose(p)
	w.after(d, func() { w.lose(p) })
}

// lose makes the membership lose the messages that isolate drops.
func (w *world) lose(p *process) {
	if !p.host || !p.alive {
		return
	}
	share := func(until time.Time) float64 {
		if w.now.Before(until) {
			return 1
		}
		return 0
	}
	w.members.Lose(p.node, share(p.cut.deaf), share(p.cut.mute))
}

// split cuts the broker's cluster in two for a time.
func (w *world) split(d time.Duration) {
	if over := w.now.Add(d); w.parted.Before(over) {
		w.parted = over
	}
	a, b := w.members.Servers()[0], w.members.Servers()[1]
	w.members.Cut(a, b)
	w.members.Cut(b, a)
	w.after(d, func() {
		if !w.now.Before(w.parted) {
			w.members.Mend(a, b)
		}
	})
}

func (w *world) mend() {
	w.parted = time.Time{}
	if servers := w.members.Servers(); len(servers) > 1 {
		w.members.Mend(servers[0], servers[1])
	}
	w.members.TableDown(false)
	for _, p := range w.procs {
		p.cut = spell{}
		w.lose(p)
		if p.node != nil {
			w.members.CutTable(p.node, false)
		}
	}
}

func (w *world) blocked(from, to *process) bool {
	return from != to && (w.now.Before(from.cut.mute) || w.now.Before(to.cut.deaf) ||
		from.server != to.server && w.now.Before(w.parted))
}

// transmit brings a payload from one process to another on their lane. While both connections hold,
// payloads arrive in order. If one breaks, they arrive late or never.
func (w *world) transmit(l *link, token uint64, payload []byte) {
	from, to := l.process, w.process(l.Peer().Address)
	at := w.now.Add(w.between(100*time.Microsecond, 4*time.Millisecond))
	if at.Before(l.arrives) {
		at = l.arrives
	}
	l.arrives = at
	if w.blocked(from, to) {
		return
	}
	mine, theirs := from.life, to.life
	w.after(at.Sub(w.now), func() {
		switch {
		case !to.alive:
			bounce := func() {
				if from.connected && from.life == mine && !w.blocked(to, from) {
					l.Bounced(token)
					l.later()
					from.partIfStranger(to.self.Address)
					if from.host {
						from.control.do(func() { from.control.Suspect(to.self.Address) })
					} else {
						from.client.do(from.client.Suspect)
					}
				}
			}
			from.after(w.upTo(2*time.Millisecond), bounce)
			if w.plan.rebounds && w.faulty && w.one(2) {
				from.after(w.upTo(2*stream.RetryAfter), bounce)
			}
		case from.life == mine && to.life == theirs:
			arrives := payload
			if w.plan.overlaps && w.faulty && w.one(8) {
				arrives = overlap(l.before, payload)
			}
			l.before = payload
			to.after(0, func() { to.arrive(arrives) })
		case w.one(2): // a connection broke meanwhile: the payload may still arrive
			to.after(w.upTo(200*time.Millisecond), func() { to.arrive(payload) })
		}
	})
}

// overlap returns one frame with the envelopes of two, as a peer may send when it resends envelopes
// in other frames. If the second frame does not directly follow the first, it returns the second.
func overlap(first, second []byte) []byte {
	var fr wire.FrameReader
	a, before, err := fr.Header(first)
	if err != nil {
		return second // there is no first yet
	}
	h, rest, err := fr.Header(second)
	if err != nil || a.Count == 0 || h.Count == 0 || a.Seq+uint64(a.Count) != h.Seq {
		return second
	}
	h.Seq, h.Count = a.Seq, a.Count+h.Count
	return slices.Concat(wire.AppendFrameHeader(nil, &h), before, rest)
}

// post brings a message from one process to another on the control channel. During faults, messages
// are lost, repeated and reordered.
func (w *world) post(from, to *process, deliver func()) {
	if to == from {
		to.after(0, deliver)
		return
	}
	copies := 1
	if w.faulty && w.one(30) {
		copies = 2
	}
	for range copies {
		if w.blocked(from, to) || w.faulty && w.r.Float64() < w.plan.loss {
			continue
		}
		d := w.between(200*time.Microsecond, 10*time.Millisecond)
		if w.faulty && w.one(20) {
			d = w.upTo(300 * time.Millisecond)
		}
		to.after(d, deliver)
	}
}
