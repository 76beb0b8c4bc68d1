package natstransport

import (
	"net"
	"sync/atomic"
	"time"
)

// A wire is the byte stream below one nats.Conn. A wire closes itself at its first failed write. If
// it did not, nats.go would drop its buffer and might go on, so that messages in the middle of a
// connection were lost.
//
// For nats.go a held wire is closed, but its socket stays open; nothing is read from the socket or
// written to it. So the server keeps the subscriptions, and does not tell members that nobody
// listens.
type wire struct {
	net.Conn
	held  atomic.Bool
	reads atomic.Uint64 // number of reads that have returned, which ping compares
}

// hold detaches the socket from nats.go. Later writes, such as TLS's closing alert, are discarded.
func (w *wire) hold() {
	w.held.Store(true)
	_ = w.Conn.SetDeadline(time.Unix(1, 0)) // ends a Read and a Write that wait
}

// drop closes the socket, even that of a held wire.
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
		_ = w.Close() // the reading goroutine then ends the connection
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
