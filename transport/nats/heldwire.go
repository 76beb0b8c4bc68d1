package natstransport

import "time"

const (
	// holdFor is how long a held wire stays open at most while there is no next
	// connection.
	holdFor = 30 * time.Second
	// spreadFor is how long it stays open when the next connection is at another
	// server: the old one has to learn of the new subscriptions first, by a
	// connection between servers that may be slow too.
	spreadFor = 10 * time.Second
	// maxHeld is the largest number of wires that a channel holds; the oldest are closed.
	maxHeld = 2
)

// A heldWire is a held wire. Its timer closes it, unless drop does so earlier.
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

// A holder holds the wires of a channel's ended connections. It needs no lock, because only
// upkeep.run uses it; timers only close wires.
type holder struct{ wires []*heldWire }

// hold keeps the connection's wire open. Afterwards the caller ends the connection, which does not
// close the wire.
func (h *holder) hold(s *connection) {
	s.wire.hold()
	if len(h.wires) == maxHeld {
		h.wires[0].drop()
		h.wires = h.wires[1:]
	}
	h.wires = append(h.wires, &heldWire{wire: s.wire, server: s.server, timer: time.AfterFunc(holdFor, s.wire.drop)})
}

// adopted closes the held wires to the server of the new connection, because this server has
// confirmed the new subscriptions. Wires to other servers stay open for spreadFor, in which these
// servers learn of the new subscriptions.
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

// close closes all held wires.
func (h *holder) close() {
	for _, w := range h.wires {
		w.drop()
	}
	h.wires = nil
}
