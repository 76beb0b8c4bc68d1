package direct

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/transport"
)

// maxGreeting bounds the connections that have shown no nonce yet. Further ones are closed.
const maxGreeting = 64

// acceptPause is the time between an error of the listener and the next attempt to accept.
const acceptPause = 100 * time.Millisecond

// tickEvery is how often agree.Machine gets the time while there are agreements.
const tickEvery = 500 * time.Millisecond

// A Counter is one of the counters of a process, which [Env.Count] raises by one.
type Counter uint8

// The counters.
const (
	Opened   Counter = iota // a connection
	Refused                 // an offer, by either side
	Stranger                // a connection that showed no key and nonce that were announced
)

// An Env is the process of Lanes. Its methods must not block.
type Env interface {
	// Go runs f on a goroutine of the process.
	Go(f func())
	// Send sends the body of a control message to a process.
	Send(to transport.Peer, body []byte)
	// Confidential returns nil if others cannot read the messages of the broker.
	Confidential() error
	// MaxPayload is the largest frame, in bytes.
	MaxPayload() int
	// Carry begins to send and receive frames of a lane on the connection. When
	// receiving has ended, it calls Lanes.Ended.
	Carry(c *Conn)
	// Wanted is called for a connection that is open when one is asked for.
	Wanted(c *Conn)
	// Count raises a counter by one, and reports whether to log that.
	Count(Counter) (n uint64, tell bool)
	// Closed is called when a connection has ended.
	Closed(peer transport.Peer, lane int, why agree.Reason)
	// Log logs a line for operators.
	Log(text string, args ...any)
}

// A Config describes the process.
type Config struct {
	Self  transport.Peer
	Lanes int
	// Listen is the TCP address to listen on; "" not to listen.
	Listen string
	// Advertise is the host and port, or the host alone, at which others reach it. Default: the address of
	// the listener.
	Advertise string
	// Dialer makes the connections. Default: that of the system.
	Dialer Dialer
	// BackOff is the time after the first failure with a peer. Default agree.MinBackOff.
	BackOff time.Duration
	// Waiting bounds the bytes that may wait for one connection's socket.
	Waiting int
}

// Lanes are the direct lanes of one process. They are safe for concurrent use.
type Lanes struct {
	env      Env
	cfg      Config
	id       *keyPair
	listener net.Listener // nil: the process only dials
	ctx      context.Context
	stop     context.CancelFunc
	greeting chan struct{} // has a value for each connection that has shown no nonce yet
	lastID   atomic.Uint64

	mu      sync.Mutex // guards the fields below
	core    *agree.Machine
	conns   map[uint64]*Conn
	ticking bool
	stopped bool
	drained chan struct{}   // closed when stopped and without connections
	told    map[string]bool // the reasons of refusals that were logged, at most maxTold
}

// New returns Lanes that listen, if they are to. Start begins to accept connections.
func New(cfg Config, env Env) (*Lanes, error) {
	id, err := newKeyPair()
	if err != nil {
		return nil, err
	}
	l := &Lanes{
		env: env, cfg: cfg, id: id, greeting: make(chan struct{}, maxGreeting), conns: map[uint64]*Conn{},
		drained: make(chan struct{}), told: map[string]bool{},
	}
	l.ctx, l.stop = context.WithCancel(WithDialer(context.Background(), cfg.Dialer))
	address := ""
	if cfg.Listen != "" {
		if l.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, err
		}
		if address, err = advertised(cfg.Advertise, l.listener.Addr()); err != nil {
			_ = l.listener.Close()
			return nil, err
		}
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	l.core = agree.New(agree.Config{
		Self: cfg.Self, Lanes: cfg.Lanes, Key: id.hash, Address: address, Seed: binary.BigEndian.Uint64(seed[:]), BackOff: cfg.BackOff,
	})
	return l, nil
}

// advertised returns the address at which others reach a listener.
func advertised(advertise string, at net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", err
	}
	if advertise == "" {
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			return "", fmt.Errorf("listening on %s, which is no address that others can dial (set Config.Direct.Advertise)", at)
		}
		return at.String(), nil
	}
	if h, p, err := net.SplitHostPort(advertise); err == nil {
		host = h
		if p != "" && p != "0" {
			port = p
		}
	} else {
		host = advertise
	}
	return net.JoinHostPort(host, port), nil
}

// Start accepts connections until Close.
func (l *Lanes) Start() {
	if l.listener != nil {
		l.env.Go(l.accept)
	}
}

// Addr returns the listener's address; nil if the process does not listen.
func (l *Lanes) Addr() net.Addr {
	if l.listener == nil {
		return nil
	}
	return l.listener.Addr()
}

// Open returns the number of open connections.
func (l *Lanes) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Open()
}

// Want offers a peer a connection for a lane, because there are frames for it. If there is such
// a connection already, Env.Wanted is called with it.
func (l *Lanes) Want(to transport.Peer, lane int) {
	if c := l.find(to.Address, lane); c != nil {
		l.env.Wanted(c)
		return
	}
	if why := l.refuses(); why != "" {
		l.refused(agree.Refused{Peer: to, Here: true, Reason: why})
		return
	}
	l.step(func(now time.Time) agree.Output { return l.core.Want(now, to, lane, newNonce()) })
}

// find returns the connection with a peer that carries a lane; nil if there is none.
func (l *Lanes) find(peer transport.Address, lane int) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := l.core.Connected(peer, lane); ok {
		return l.conns[id]
	}
	return nil
}

// refuses returns why this process agrees to no connection now, or "".
func (l *Lanes) refuses() string {
	if err := l.env.Confidential(); err != nil {
		return "the broker's connection is neither encrypted nor local: " + err.Error() + " (use TLS to the broker)"
	}
	return ""
}

func newNonce() (n agree.Nonce) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// Receive takes the body of a control message. An error is that of reading it.
func (l *Lanes) Receive(from transport.Peer, body []byte) error {
	m, err := decodeMessage(body)
	if err != nil {
		return err
	}
	why := ""
	if _, renewal := m.(agree.Renewal); !renewal {
		why = l.refuses()
	}
	l.step(func(now time.Time) agree.Output { return l.core.Receive(now, from, m, newNonce(), why) })
	return nil
}

// Gone ends the connections with a process that left or was removed.
func (l *Lanes) Gone(a transport.Address) {
	l.step(func(time.Time) agree.Output { return l.core.Gone(a) })
}

// Ended notes that a connection's frames are not received any more.
func (l *Lanes) Ended(c *Conn) {
	c.Fail(agree.Broken) // unless there was a reason before
	l.mu.Lock()
	delete(l.conns, c.id)
	l.noteDrainedLocked()
	l.core.Ended(time.Now(), c.id, c.Why())
	l.mu.Unlock()
	l.env.Closed(c.peer, c.lane, c.Why())
}

// Close ends all connections, and accepts and makes no more. It may be called twice, and on a
// nil pointer.
func (l *Lanes) Close() {
	if l == nil {
		return
	}
	l.stop()
	if l.listener != nil {
		_ = l.listener.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for _, c := range l.conns {
		c.Fail(agree.Over)
	}
	l.noteDrainedLocked()
}

// Drained returns a channel that is closed when Close has been called, all connections have
// ended and nothing is received from them any more.
func (l *Lanes) Drained() <-chan struct{} { return l.drained }

// noteDrainedLocked closes drained when it is time. A connection that was made while Close ran
// fails at once, and nothing of it is received.
func (l *Lanes) noteDrainedLocked() {
	if !l.stopped || len(l.conns) > 0 {
		return
	}
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}

// step gives the machine an input, and does the work that results.
func (l *Lanes) step(f func(now time.Time) agree.Output) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	out := f(time.Now())
	l.doLocked(&out)
	l.mu.Unlock()
	l.perform(&out)
}

// doLocked does the part of an output that concerns connections.
func (l *Lanes) doLocked(out *agree.Output) {
	for _, c := range out.Close {
		if conn := l.conns[c.ID]; conn != nil {
			conn.Fail(c.Reason)
		}
	}
	if !l.ticking && !l.core.Idle() {
		l.ticking = true
		l.env.Go(l.tick)
	}
}

// perform does the rest of an output, without the lock.
func (l *Lanes) perform(out *agree.Output) {
	for _, s := range out.Send {
		body, err := encode(s.Message)
		if err != nil {
			l.env.Log("direct lane message not sent", "to", s.To.Address.String(), "err", err)
			continue
		}
		l.env.Send(s.To, body)
	}
	for _, d := range out.Dial {
		l.env.Go(func() { l.dial(d) })
	}
	for _, r := range out.Refused {
		l.refused(r)
	}
}

// maxTold bounds the reasons that are logged for being new. Those of peers may be any text.
const maxTold = 16

// refused counts an offer that was refused. It logs each reason once, and few of the further refusals: whoever may
// offer can be refused as often as it likes, and for reasons in turn.
func (l *Lanes) refused(r agree.Refused) {
	n, tell := l.env.Count(Refused)
	l.mu.Lock()
	if !l.told[r.Reason] && len(l.told) < maxTold {
		l.told[r.Reason], tell = true, true
	}
	l.mu.Unlock()
	if tell {
		l.env.Log("direct lane refused; calls go on over the broker", "peer", r.Peer.Address.String(), "here", r.Here, "why", r.Reason, "count", n)
	}
}

// tick gives the machine the time while there are agreements.
func (l *Lanes) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		now := time.Now()
		for id, c := range l.conns {
			if c.used.Swap(false) {
				l.core.Used(now, id)
			}
			c.checkStall()
		}
		out := l.core.Tick(now)
		l.doLocked(&out)
		idle := l.core.Idle() || l.stopped
		l.ticking = !idle
		l.mu.Unlock()
		l.perform(&out)
		if idle {
			return
		}
	}
}

// dial makes a connection that was agreed on.
func (l *Lanes) dial(d agree.Dial) {
	c, err := dial(l.ctx, l.id, d, l.cfg.Waiting, l.env.Go, l.env.MaxPayload)
	if err != nil {
		l.mu.Lock()
		_, out := l.core.Dialed(time.Now(), d, 0)
		l.mu.Unlock()
		l.perform(&out)
		if n, tell := l.env.Count(Refused); tell && l.ctx.Err() == nil {
			l.env.Log("direct lane not made; calls go on over the broker", "peer", d.Peer.Address.String(), "address", d.Address, "err", err, "count", n)
		}
		return
	}
	c.peer, c.lane, c.id = d.Peer, d.Lane, l.lastID.Add(1)
	l.mu.Lock()
	ok, out := l.core.Dialed(time.Now(), d, c.id)
	l.admitLocked(c, ok)
	l.mu.Unlock()
	l.perform(&out)
	l.carry(c, ok)
}

// admitLocked records a connection, unless nobody waits for it any more.
func (l *Lanes) admitLocked(c *Conn, ok bool) {
	if !ok || l.stopped {
		c.Fail(agree.Over)
	}
	if ok {
		l.conns[c.id] = c
	}
}

func (l *Lanes) carry(c *Conn, ok bool) {
	if !ok {
		return
	}
	l.env.Count(Opened)
	l.env.Carry(c)
}

// accept takes connections until the listener is closed.
func (l *Lanes) accept() {
	for {
		c, err := l.listener.Accept()
		if l.ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return
		}
		if err != nil {
			l.env.Log("direct lanes cannot accept connections at the moment", "err", err)
			select {
			case <-l.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		select {
		case l.greeting <- struct{}{}:
			l.env.Go(func() { l.hearGreeting(c) })
		default:
			l.stranger(c, errCrowd)
		}
	}
}

// errCrowd is why a connection is closed at once.
var errCrowd = fmt.Errorf("%d connections have shown no key yet", maxGreeting)

// stranger closes a connection that showed nothing announced.
func (l *Lanes) stranger(c net.Conn, why error) {
	_ = c.Close()
	if n, tell := l.env.Count(Stranger); tell && l.ctx.Err() == nil {
		l.env.Log("connection to the port of direct lanes refused", "from", c.RemoteAddr().String(), "why", why, "count", n)
	}
}

// hearGreeting has a process that dialed show its key and nonce.
func (l *Lanes) hearGreeting(c net.Conn) {
	stop := context.AfterFunc(l.ctx, func() { _ = c.Close() })
	defer stop()
	out := newOutlet(c, l.cfg.Waiting, l.env.Go)
	secure := tls.Server(out, l.id.config(func(k agree.Key) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.core.Expects(k)
	}))
	key, nonce, err := greeted(secure)
	<-l.greeting
	if err != nil {
		l.stranger(c, err)
		return
	}
	conn := newConn(secure, out, l.env.MaxPayload)
	conn.id = l.lastID.Add(1)
	conn.mu.Lock() // frames that are sent from admitLocked on go behind the version
	l.mu.Lock()
	peer, lane, ok, todo := l.core.Arrived(time.Now(), key, nonce, conn.id)
	conn.peer, conn.lane = peer, lane
	l.admitLocked(conn, ok)
	l.mu.Unlock()
	if ok {
		_, err = secure.Write([]byte{version})
	}
	conn.mu.Unlock()
	l.perform(&todo)
	if !ok {
		l.stranger(c, errNobody)
		return
	}
	if err != nil {
		conn.Fail(agree.Broken)
	}
	l.carry(conn, true)
}

// errNobody is why a connection with a known key is closed.
var errNobody = fmt.Errorf("its nonce is not known, was used, or has expired")
