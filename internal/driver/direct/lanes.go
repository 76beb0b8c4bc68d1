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

// maxGreeting bounds the connections that have not shown a nonce yet. Further connections are
// closed.
const maxGreeting = 64

const acceptPause = 100 * time.Millisecond

const tickEvery = 500 * time.Millisecond

// A Counter is one of the counters of a process. [Env.Count] adds one to it.
type Counter uint8

// The events that package direct counts.
const (
	Opened   Counter = iota // opened connections
	Refused                 // refused offers, by either side
	Stranger                // connections that did not show an announced key and nonce
)

// An Env is the process of Lanes. Its methods must not block.
type Env interface {
	// Go runs f on a goroutine of the process.
	Go(f func())
	// Send sends the body of a control message to a process.
	Send(to transport.Peer, body []byte)
	// Confidential returns nil if the connection to the broker is encrypted or local.
	Confidential() error
	// MaxPayload returns the size of the largest frame, in bytes.
	MaxPayload() int
	// Carry begins to send and receive a lane's frames on the connection. When receiving has ended,
	// the Env calls Lanes.Ended.
	Carry(c *Conn)
	// Wanted is called when a direct lane is asked for and the connection for it is already open.
	Wanted(c *Conn)
	// Count adds one to a counter. It returns the new value, and whether to log it.
	Count(Counter) (n uint64, tell bool)
	// Closed is called when a connection has ended, with the reason.
	Closed(peer transport.Peer, lane int, why agree.Reason)
	// Log logs a line for operators.
	Log(text string, args ...any)
}

// A Config describes the process of Lanes.
type Config struct {
	Self  transport.Peer
	Lanes int
	// Listen is the TCP address to listen on; "" means that the process does not listen.
	Listen string
	// Advertise is the host and port, or only the host, at which other processes reach this one.
	// Default: the listener's address.
	Advertise string
	// Dialer makes the connections. Default: the system's.
	Dialer Dialer
	// BackOff is the pause after the first failure with a peer. Default agree.MinBackOff.
	BackOff time.Duration
	// Waiting bounds the bytes that wait until one connection's socket takes them.
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
	greeting chan struct{} // holds one value for each connection that has not shown a nonce yet
	lastID   atomic.Uint64

	mu      sync.Mutex // guards the fields below
	core    *agree.Machine
	conns   map[uint64]*Conn
	ticking bool
	stopped bool
	drained chan struct{}   // closed when stopped is set and conns is empty
	told    map[string]bool // reasons of refusals that were logged, at most maxTold
}

// New returns the Lanes of a process. If Config.Listen is set, they listen, and Start begins to
// accept connections.
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

func advertised(advertise string, at net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", err
	}
	if advertise == "" {
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			return "", fmt.Errorf("listening on %s, which is no address that other processes can dial (set Config.Direct.Advertise)", at)
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

// Start begins to accept connections, until Close.
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

// Want offers a peer a connection for a lane on which frames for the peer are sent. If there
// already is such a connection, it calls Env.Wanted.
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

func (l *Lanes) find(peer transport.Address, lane int) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := l.core.Connected(peer, lane); ok {
		return l.conns[id]
	}
	return nil
}

// refuses returns the reason why this process accepts no connection at the moment; "" means that it
// accepts connections.
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

// Receive handles the body of a control message about direct lanes. It returns an error if the body
// cannot be read.
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

// Ended records that no more frames are received on a connection.
func (l *Lanes) Ended(c *Conn) {
	c.Fail(agree.Broken) // unless there was a reason before
	l.mu.Lock()
	delete(l.conns, c.id)
	l.noteDrainedLocked()
	l.core.Ended(time.Now(), c.id, c.Why())
	l.mu.Unlock()
	l.env.Closed(c.peer, c.lane, c.Why())
}

// Close ends all connections, and accepts and makes no further ones. It may be called twice, and on
// a nil pointer.
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

// Drained returns a channel that is closed after Close, when all connections have ended and their
// received frames have been handled.
func (l *Lanes) Drained() <-chan struct{} { return l.drained }

// noteDrainedLocked closes drained once no connection is left after Close. It ignores connections
// being made, which fail at once.
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

// maxTold bounds the reasons that are each logged once, because a peer may send any text.
const maxTold = 16

// refused logs each reason of a refused offer once, up to maxTold, and only few further refusals.
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

var errCrowd = fmt.Errorf("%d connections have not shown a key yet (this one is closed)", maxGreeting)

func (l *Lanes) stranger(c net.Conn, why error) {
	_ = c.Close()
	if n, tell := l.env.Count(Stranger); tell && l.ctx.Err() == nil {
		l.env.Log("connection to the port of direct lanes refused", "from", c.RemoteAddr().String(), "why", why, "count", n)
	}
}

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

var errNobody = fmt.Errorf("the nonce that the connection showed is not known, was used, or has expired")
