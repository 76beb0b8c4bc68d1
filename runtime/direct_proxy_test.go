package shard_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy stands between a node's port of direct lanes and those who dial it.
type proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	target  string
	refuses bool // closes what is dialed
	holds   bool // forwards nothing, and closes nothing
	budget  int  // bytes to forward before a reset; negative: no bound
	conns   map[net.Conn]bool
	closed  bool
	dialed  int
}

func newProxy(t *testing.T) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, conns: map[net.Conn]bool{}, budget: -1}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.set(func() { p.closed = true })
		_ = l.Close()
		p.cut(false)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the proxy.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	f()
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, refuses := p.target, p.refuses
		p.dialed++
		p.mu.Unlock()
		var to net.Conn
		if !refuses {
			to, err = net.Dial("tcp", target)
		}
		if refuses || err != nil {
			_ = c.Close()
			continue
		}
		p.set(func() { p.conns[c], p.conns[to] = true, true })
		p.wg.Go(func() { p.forward(c, to) })
		p.wg.Go(func() { p.forward(to, c) })
	}
}

func (p *proxy) forward(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.set(func() { delete(p.conns, from); delete(p.conns, to) })
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.pass(to, buf[:n]) || err != nil {
			return
		}
	}
}

// pass forwards bytes, or as many as the budget has. It reports whether to go on.
func (p *proxy) pass(to net.Conn, b []byte) bool {
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
	p.mu.Unlock()
	_, err := to.Write(b)
	if spent {
		_ = p.reset(to)
	}
	return err == nil && !spent
}

// reset closes a connection at once, with what it has not read.
func (p *proxy) reset(c net.Conn) error {
	_ = c.(*net.TCPConn).SetLinger(0)
	return c.Close()
}

// cut closes all connections, in order or not.
func (p *proxy) cut(reset bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		n++
		if reset {
			_ = p.reset(c)
		} else {
			_ = c.Close()
		}
		delete(p.conns, c)
	}
	p.changed.Broadcast()
	return n
}
