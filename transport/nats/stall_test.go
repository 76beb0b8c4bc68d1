package natstransport_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A proxy passes TCP connections on to a server. It can hold up the server's bytes, like lost
// packets.
type proxy struct {
	net.Listener
	server string
	slow   bool // the server's bytes pass at 64 kB/s
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	now    *valve // valve of later connections
	valves []*valve
	stuck  int // how many later connections stand still
}

// A valve lets bytes pass while it is open.
type valve struct {
	mu   sync.Mutex
	open chan struct{} // closed while it is open
}

func newValve() *valve {
	g := &valve{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *valve) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *valve) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

func startProxy(t *testing.T, server string, slow bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, server: server, slow: slow, now: newValve()}
	p.valves = []*valve{p.now}
	p.wg.Go(p.run)
	t.Cleanup(func() {
		_ = l.Close()
		p.resume()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) run() {
	for {
		near, err := p.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		back := p.now
		if p.stuck > 0 {
			p.stuck--
			back = newValve()
			back.set(false)
			p.valves = append(p.valves, back)
		}
		p.mu.Unlock()
		p.wg.Go(func() { pass(far, near, newValve(), false) })
		p.wg.Go(func() { pass(near, far, back, p.slow) })
	}
}

func pass(to, from net.Conn, g *valve, slow bool) {
	defer func() { _ = to.Close() }()
	b := make([]byte, 4096)
	if slow {
		b = b[:64]
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if slow {
			<-tick.C
		}
		n, err := from.Read(b)
		g.wait()
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}

// stall holds up the server's bytes on present connections and, with toCome, on later ones.
func (p *proxy) stall(toCome bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.set(false)
	if !toCome {
		p.now = newValve()
		p.valves = append(p.valves, p.now)
	}
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.valves {
		g.set(true)
	}
}

// listens reports whether the broker has a subscriber for the peer's control frames.
func listens(t *testing.T, from transport.Link, to transport.Address) bool {
	t.Helper()
	if err := from.Send(transport.Control, transport.Peer{Address: to}, 7, []byte("probe")); err != nil {
		t.Fatal(err)
	}
	if err := from.Flush(t.Context(), transport.Control); err != nil {
		t.Fatal(err)
	}
	m, ok := from.TryReceive(transport.Control)
	if ok && m.Kind != transport.Unreachable {
		t.Fatalf("received %+v, want nothing or Unreachable", m)
	}
	return !ok
}

// A link gives up a connection that stands still. While its process runs and reconnects, the broker
// does not report the process as gone. When the process has ended, the broker reports that at once.
func TestStalledNodeIsNotGone(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			scheme, args, opts := "nats://", []string(nil), []nats.Option{nats.PingInterval(50 * time.Millisecond), nats.Timeout(time.Minute)}
			if secure {
				cert, key := writeCertificate(t)
				scheme, args, opts = "tls://", []string{"--tls", "--tlscert", cert, "--tlskey", key}, append(opts, nats.RootCAs(cert))
			}
			s := natsproc.Start(t, args...)
			p := startProxy(t, strings.TrimPrefix(s.URL(), "nats://"), false)
			states := make(chan transport.State, 100)
			o := optionsOf(nodeA)
			o.OnState = func(ch transport.Channel, s transport.State) {
				if ch == transport.Control {
					states <- s
				}
			}
			a := openWith(t, scheme+p.Addr().String(), o, natstransport.ConnectOptions(opts...))
			b := openLink(t, strings.Replace(s.URL(), "nats://", scheme, 1), transport.Address{Name: "b", Incarnation: 1}, natstransport.ConnectOptions(opts[1:]...))
			wantState(t, states, true)

			p.stall(true)
			wantState(t, states, false)
			for range 20 {
				if !listens(t, b, nodeA) {
					t.Fatal("the broker has no subscriber for a node that is reconnecting")
				}
			}
			p.resume()
			wantState(t, states, true)
			if !listens(t, b, nodeA) {
				t.Fatal("the broker has no subscriber for a node that has reconnected")
			}
			for { // messages sent before the new connection may be lost
				m, err := a.Receive(transport.Control)
				if err != nil {
					t.Fatal(err)
				}
				if m.Kind == transport.Direct {
					break
				}
			}

			p.stall(true)
			wantState(t, states, false)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); listens(t, b, nodeA); {
				if time.Now().After(end) {
					t.Fatal("a closed link still listens")
				}
			}
		})
	}
}

// If a connection stands still, its replacement is ready after a ping's interval and the time to
// connect.
func TestStalledConnectionIsReplacedEarly(t *testing.T) {
	s := natsproc.Start(t)
	p := startProxy(t, strings.TrimPrefix(s.URL(), "nats://"), false)
	a, states := openStates(t, "nats://"+p.Addr().String(),
		natstransport.ConnectOptions(nats.PingInterval(100*time.Millisecond), nats.MaxPingsOutstanding(1_000_000)))
	wantState(t, states, true)
	p.stall(false)
	wantState(t, states, false)
	wantState(t, states, true)
	self := transport.Peer{Address: nodeA}
	if err := a.Send(0, self, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "x")
}

// If some new connections stand still too, the link finds one that does not.
func TestStalledNodeTriesSeveralConnections(t *testing.T) {
	s := natsproc.Start(t)
	p := startProxy(t, strings.TrimPrefix(s.URL(), "nats://"), false)
	states := make(chan transport.State, 100)
	o := optionsOf(nodeA)
	o.Lanes = 1
	o.OnState = func(ch transport.Channel, s transport.State) {
		if ch == transport.Control {
			states <- s
		}
	}
	openWith(t, "nats://"+p.Addr().String(), o, natstransport.ConnectOptions(
		nats.PingInterval(50*time.Millisecond), nats.MaxPingsOutstanding(1_000_000), nats.Timeout(time.Minute)))
	wantState(t, states, true)
	p.mu.Lock()
	p.stuck = 2 // control's and the lane's
	p.mu.Unlock()
	p.stall(false)
	wantState(t, states, false)
	wantState(t, states, true)
}

// A lane keeps its connection if answers to pings wait behind many messages. The messages take a
// second, which is several intervals. An interval is longer than a busy machine stands still.
func TestBusyLaneIsNotStale(t *testing.T) {
	s := natsproc.Start(t)
	p := startProxy(t, strings.TrimPrefix(s.URL(), "nats://"), true)
	a, states := openStates(t, "nats://"+p.Addr().String(),
		natstransport.ConnectOptions(nats.PingInterval(250*time.Millisecond), nats.MaxPingsOutstanding(1_000_000)))
	wantState(t, states, true)
	self := transport.Peer{Address: nodeA}
	for i := range 64 {
		if err := a.Send(0, self, 0, make([]byte, 1024)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	watchdog := time.AfterFunc(patience, func() { _ = a.Close() })
	defer watchdog.Stop()
	for i := range 64 {
		if m, err := a.Receive(0); err != nil || len(m.Payload) != 1024 {
			t.Fatalf("message %d: received %d bytes, error %v", i, len(m.Payload), err)
		}
	}
	select {
	case s := <-states:
		t.Errorf("state changed to %+v, want the first connection to last", s)
	default:
	}
}
