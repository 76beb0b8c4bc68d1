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
	reads atomic.Uint64 // that returned; a ping compares the number
}

// hold takes the wire from nats.go. Later writes of nats.go, such as the alert that TLS
// writes before it closes, are discarded.
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

// A held wire keeps the deadline of hold and ignores later ones of nats.go.

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
