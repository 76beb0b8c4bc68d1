package natstransport

import (
	"net"
	"sync/atomic"
	"time"
)

// A wire is the byte stream below one nats.Conn. nats.go drops its buffer after
// a failed write and may carry on (when nothing was written, or from its ping
// timer), which would lose messages in the middle of a connection. A wire
// breaks instead.
//
// A wire that is held outlives its nats.Conn: to nats.go it is closed, but the
// socket stays open and is neither read nor written. The server goes on counting
// its subscriptions, and so does not tell the other members that nobody listens.
// The operating system closes the socket when the process ends.
type wire struct {
	net.Conn
	held  atomic.Bool
	reads atomic.Uint64
}

// hold takes the wire from nats.go. Later writes of nats.go, such as that of TLS before
// it closes, are discarded.
func (w *wire) hold() {
	w.held.Store(true)
	_ = w.Conn.SetDeadline(time.Unix(1, 0)) // ends a Read and a Write that wait
}

// drop closes the socket, held or not.
func (w *wire) drop() { _ = w.Conn.Close() }

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.reads.Add(1)
	if w.held.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	if w.held.Load() {
		return len(b), nil
	}
	n, err := w.Conn.Write(b)
	if err != nil {
		_ = w.Close() // the reader finds it closed and ends the connection
	}
	return n, err
}

func (w *wire) Close() error {
	if w.held.Load() {
		return nil
	}
	return w.Conn.Close()
}

// The deadlines of a held wire are not nats.go's any more.

func (w *wire) SetDeadline(t time.Time) error {
	if w.held.Load() {
		return nil
	}
	return w.Conn.SetDeadline(t)
}

func (w *wire) SetReadDeadline(t time.Time) error {
	if w.held.Load() {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.held.Load() {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

const (
	// holdFor is how long a held wire stays open at most while there is no next
	// connection.
	holdFor = 30 * time.Second
	// spreadFor is how long it stays open when the next connection is at another
	// server: the old one has to learn of the new subscriptions first, by a
	// connection between servers that may be slow too.
	spreadFor = 10 * time.Second
	// maxHeld is how many wires a channel holds, the latest.
	maxHeld = 2
)

// A heldWire is closed by its timer, unless that is done before.
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

// A holder holds the wires of a channel's ended connections. It belongs to the
// channel's run.
type holder struct{ wires []*heldWire }

// hold keeps the connection's wire open. Calls that end the connection come after it.
func (h *holder) hold(s *connection) {
	s.wire.hold()
	if len(h.wires) == maxHeld {
		h.wires[0].drop()
		h.wires = h.wires[1:]
	}
	h.wires = append(h.wires, &heldWire{wire: s.wire, server: s.server, timer: time.AfterFunc(holdFor, s.wire.drop)})
}

// adopted closes the wires to the server of the new connection, which has confirmed
// its subscriptions. The others stay until it must have told its peers.
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

// close closes all.
func (h *holder) close() {
	for _, w := range h.wires {
		w.drop()
	}
	h.wires = nil
}
