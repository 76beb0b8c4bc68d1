package natstransport

import "time"

const (
	// holdFor is how long a wire is held if no next connection is made.
	holdFor = 30 * time.Second
	// spreadFor is how long a wire is held after a connection to another server: the old server
	// must first learn of the new subscriptions.
	spreadFor = 10 * time.Second
	// maxHeld bounds a channel's held wires; the oldest are closed.
	maxHeld = 2
)

// A heldWire is a wire to be closed by its timer or, if earlier, by drop.
type heldWire struct {
	*wire
	server string
	timer  *time.Timer
	spread bool // the next connection was adopted, at another server
}

func (h *heldWire) drop() {
	h.timer.Stop()
	h.wire.drop()
}

// A holder holds wires of ended connections. It needs no lock: only upkeep.run uses it, and timers
// only close wires.
type holder struct{ wires []*heldWire }

// hold keeps the connection's wire open, although the caller ends the connection.
func (h *holder) hold(s *connection) {
	s.wire.hold()
	if len(h.wires) == maxHeld {
		h.wires[0].drop()
		h.wires = h.wires[1:]
	}
	h.wires = append(h.wires, &heldWire{wire: s.wire, server: s.server, timer: time.AfterFunc(holdFor, s.wire.drop)})
}

// adopted closes held wires to the new connection's server, which has confirmed the subscriptions.
// Wires to other servers stay for spreadFor, because these servers must learn of the subscriptions.
func (h *holder) adopted(next *connection) {
	kept := h.wires[:0]
	for _, w := range h.wires {
		switch {
		case w.server == next.server:
			w.drop()
			continue
		case !w.spread:
			w.spread = true
			w.timer.Stop()
			w.timer = time.AfterFunc(spreadFor, w.wire.drop)
		}
		kept = append(kept, w)
	}
	clear(h.wires[len(kept):])
	h.wires = kept
}

func (h *holder) close() {
	for _, w := range h.wires {
		w.drop()
	}
	h.wires = nil
}
