package natstransport

import (
	"net"
	"sync/atomic"
	"time"
)

// A wire is the byte stream below one nats.Conn. After a failed write nats.go drops its buffer and
// may still go on (if nothing was written, or from its ping timer), which would lose messages in
// the middle of a connection. A wire breaks at its first failed write instead.
//
// A wire can be held beyond the end of its nats.Conn: for nats.go it is closed, but the socket
// stays open and is neither read nor written. The server then still counts the connection's
// subscriptions, so it does not tell other members that nobody listens. When the process ends, the
// operating system closes the socket.
type wire struct {
	net.Conn
	held  atomic.Bool
	reads atomic.Uint64 // that returned; a ping compares the number
}

// hold detaches the wire from nats.go but keeps the socket open. Later writes of nats.go, such as
// the alert that TLS writes before it closes, are discarded.
func (w *wire) hold() {
	w.held.Store(true)
	_ = w.Conn.SetDeadline(time.Unix(1, 0)) // ends a Read and a Write that wait
}

// drop closes the socket, even if the wire is held.
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
