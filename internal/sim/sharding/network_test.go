package sharding

import "time"

// A way is a direction between two processes.
type way struct{ from, to *process }

// cut lets nothing through from one process to another for a time.
func (w *world) cut(from, to *process, d time.Duration) {
	if until := w.now.Add(d); w.cuts[way{from, to}].Before(until) {
		w.cuts[way{from, to}] = until
	}
}

func (w *world) blocked(from, to *process) bool {
	until, ok := w.cuts[way{from, to}]
	return ok && w.now.Before(until)
}

// transmit brings a payload from one process to another on their lane: in order
// while both connections hold, late or never when one breaks.
func (w *world) transmit(l *link, token uint64, payload []byte) {
	from, to := l.process, w.process(l.peer.Address)
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
			from.after(w.upTo(2*time.Millisecond), func() {
				if from.connected && from.life == mine && !w.blocked(to, from) {
					l.core.Bounced(token, w.now)
					l.flush()
					if from.host {
						from.control.partWithAbsent(to.self.Address)
					}
				}
			})
		case from.life == mine && to.life == theirs:
			to.after(0, func() { to.arrive(payload) })
		case w.one(2): // a connection broke meanwhile
			to.after(w.upTo(200*time.Millisecond), func() { to.arrive(payload) })
		}
	})
}

// post brings a message from one process to another on the control channel, which
// loses, repeats and reorders while there are faults.
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
