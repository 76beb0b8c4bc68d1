// Package proxy forwards TCP connections to a process, and breaks them as a network would.
package proxy

import (
	"net"
	"sync"
)

// A Proxy forwards TCP connections to a target. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	target  string
	refuses bool
	holds   bool
	budget  int // bytes to forward before a reset; negative: no bound
	conns   map[net.Conn]bool
	closed  bool
	bytes   int64
}

// New returns [On] for a listener on a port of the loopback interface.
func New() (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return On(l), nil
}

// On returns a Proxy with the given listener. The caller must set a target by Forward, and Close the
// Proxy.
func On(l net.Listener) *Proxy {
	p := &Proxy{listener: l, conns: map[net.Conn]bool{}, budget: -1}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	return p
}

// Addr returns the address on which the Proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Forward sets the address to which later connections are forwarded.
func (p *Proxy) Forward(target string) { p.set(func() { p.target = target }) }

// Refuse sets whether later connections are closed at once.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuses = on }) }

// Hold sets whether the Proxy holds all bytes back without closing connections, as when packets are
// lost.
func (p *Proxy) Hold(on bool) { p.set(func() { p.holds = on }) }

// ResetAfter bounds the bytes that all connections together forward from now on. The connection
// that would exceed the bound is reset. A negative number means no bound.
func (p *Proxy) ResetAfter(bytes int) { p.set(func() { p.budget = bytes }) }

// Spent reports whether the bound of ResetAfter is used up.
func (p *Proxy) Spent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget == 0
}

func (p *Proxy) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// Cut closes all connections, by TCP resets if reset is true. It returns how many sockets it
// closed: two per forwarded connection.
func (p *Proxy) Cut(reset bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		n++
		if reset {
			abort(c)
		} else {
			_ = c.Close()
		}
		delete(p.conns, c)
	}
	p.changed.Broadcast()
	return n
}

// Close stops listening and closes all connections.
func (p *Proxy) Close() {
	p.set(func() { p.closed = true })
	_ = p.listener.Close()
	p.Cut(false)
	p.wg.Wait()
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	f()
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, refuses := p.target, p.refuses
		p.mu.Unlock()
		var to net.Conn
		if !refuses {
			to, err = net.Dial("tcp", target)
		}
		if refuses || err != nil {
			_ = c.Close()
			continue
		}
		p.set(func() {
			p.conns[c], p.conns[to] = true, true
			if p.closed {
				_, _ = c.Close(), to.Close()
			}
		})
		p.wg.Go(func() { p.forward(c, to) })
		p.wg.Go(func() { p.forward(to, c) })
	}
}

func (p *Proxy) forward(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.set(func() {
			delete(p.conns, from)
			delete(p.conns, to)
		})
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.pass(to, buf[:n]) || err != nil {
			return
		}
	}
}

// pass forwards as much of b as ResetAfter allows. It reports whether the connection may go on.
func (p *Proxy) pass(to net.Conn, b []byte) bool {
	p.mu.Lock()
	for p.holds && !p.closed && p.conns[to] {
		p.changed.Wait()
	}
	spent := p.budget >= 0 && len(b) > p.budget
	if spent {
		b = b[:p.budget]
		p.budget = 0
	} else if p.budget >= 0 {
		p.budget -= len(b)
	}
	p.bytes += int64(len(b))
	p.mu.Unlock()
	_, err := to.Write(b)
	if spent {
		abort(to)
	}
	return err == nil && !spent
}

func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
