package conformance

import (
	"context"
	"net"
	"sync"
)

// A Dialer makes connections for the clients of Harness.Held and Harness.Deaf, and can hold up the
// traffic of these connections. Held-up bytes of a client arrive after Open, even if the client has
// closed the connection by then. The zero value works.
type Dialer struct {
	mu         sync.Mutex
	changed    *sync.Cond
	held, deaf bool
}

// Hold keeps back the bytes that clients send, until Open.
func (d *Dialer) Hold() { d.set(true, false) }

// Deafen keeps back the bytes that the server sends, until Open.
func (d *Dialer) Deafen() { d.set(false, true) }

// Open lets the traffic of both directions pass again.
func (d *Dialer) Open() { d.set(false, false) }

func (d *Dialer) set(held, deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held, d.deaf = held, deaf
	d.cond().Broadcast()
}

// cond returns the condition on which held-up connections wait. The caller holds d.mu.
func (d *Dialer) cond() *sync.Cond {
	if d.changed == nil {
		d.changed = sync.NewCond(&d.mu)
	}
	return d.changed
}

// Dial opens a connection whose traffic can be held up.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var plain net.Dialer
	c, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	there := &queue{dialer: d, shut: &d.held}
	back := &queue{dialer: d, shut: &d.deaf}
	go there.fill(far)
	go there.drain(c) // ends with the connection, at the latest when the dialer is open
	go back.fill(c)
	go back.drain(far)
	return &dialed{Conn: near, real: c}, nil
}

// dialed is a connection with the addresses of the real connection.
type dialed struct {
	net.Conn
	real net.Conn
}

func (c *dialed) LocalAddr() net.Addr  { return c.real.LocalAddr() }
func (c *dialed) RemoteAddr() net.Addr { return c.real.RemoteAddr() }

type queue struct {
	dialer *Dialer
	shut   *bool
	bytes  []byte
	ended  bool // nothing more comes in
}

func (q *queue) fill(from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		q.dialer.mu.Lock()
		q.bytes = append(q.bytes, buffer[:n]...)
		q.ended = q.ended || err != nil
		q.dialer.cond().Broadcast()
		q.dialer.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (q *queue) drain(to net.Conn) {
	defer to.Close()
	for {
		q.dialer.mu.Lock()
		for *q.shut || len(q.bytes) == 0 && !q.ended {
			q.dialer.cond().Wait()
		}
		bytes, ended := q.bytes, q.ended
		q.bytes = nil
		q.dialer.mu.Unlock()
		if _, err := to.Write(bytes); err != nil || ended {
			return
		}
	}
}
