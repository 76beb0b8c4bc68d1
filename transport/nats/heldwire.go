package natstransport

import "time"

const (
	// holdFor is how long a held wire waits for a next connection.
	holdFor = 30 * time.Second
	// spreadFor is how long it stays after a connection to another server: the old one must first
	// learn of the new subscriptions.
	spreadFor = 10 * time.Second
	// maxHeld bounds a channel's held wires; the oldest are closed.
	maxHeld = 2
)

// A heldWire is closed by its timer, unless drop is earlier.
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

// hold keeps the wire open when the caller ends the connection.
func (h *holder) hold(s *connection) {
	s.wire.hold()
	if len(h.wires) == maxHeld {
		h.wires[0].drop()
		h.wires = h.wires[1:]
	}
	h.wires = append(h.wires, &heldWire{wire: s.wire, server: s.server, timer: time.AfterFunc(holdFor, s.wire.drop)})
}

// adopted closes held wires to the new connection's server, which has confirmed the subscriptions.
// Others stay for spreadFor, to learn of them.
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
