package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/direct"
	"github.com/shardgen/shardgen/internal/direct/agree"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// DirectOptions let a process exchange data frames with others over TCP connections of their
// own, one for each other process and lane, instead of the broker. Calls take about half the
// time then. Everything else stays on the broker, which also has the frames whenever there
// is no connection. The connections are encrypted by keys that each process makes when it
// starts. Processes with and without direct lanes work together.
type DirectOptions struct {
	// Listen is the TCP address at which the process accepts connections, as host:port; with port
	// 0 the system chooses one. A client ([Dial]) never listens. Default "": it does not
	// listen.
	Listen string
	// Advertise is the host, or host:port, at which others reach Listen. It must be set if
	// Listen names no address of this host, as ":7000". Default: the address of Listen.
	Advertise string
	// Dial has the process connect to those that listen. It is implied by Listen. Default false.
	Dial bool
}

// enabled reports whether the process may have direct lanes.
func (o DirectOptions) enabled() bool { return o.Dial || o.Listen != "" }

// directBackOff is the time to the next try after a direct lane failed. Tests have less.
var directBackOff = agree.MinBackOff

// openDirect prepares direct lanes, if they are enabled. They begin with startDirect.
func (drv *driver) openDirect() error {
	o := drv.cfg.Direct
	if !o.enabled() {
		return nil
	}
	cfg := direct.Config{
		Self: drv.self, Lanes: drv.cfg.Lanes, Listen: o.Listen, Advertise: o.Advertise,
		Waiting: 4 * drv.cfg.Window, BackOff: directBackOff,
	}
	if drv.self.Client {
		cfg.Listen = ""
	}
	l, err := direct.New(cfg, (*directEnv)(drv))
	if err != nil {
		return fmt.Errorf("direct lanes: %w", err)
	}
	drv.direct.Store(l)
	return nil
}

// directMessage takes a control message about direct lanes. It is ignored if they are not
// enabled; the process that sent it then goes on over the broker.
func (drv *driver) directMessage(from transport.Peer, body []byte) error {
	l := drv.direct.Load()
	if l == nil {
		drv.counters.add(frameIgnored)
		return nil
	}
	return l.Receive(from, body)
}

// closeDirect ends direct lanes, and waits until the frames that were received have been
// handled. Frames that the peers have sent meanwhile come again over the broker.
func (drv drain) closeDirect(ctx context.Context) {
	l := drv.direct.Load()
	if l == nil {
		return
	}
	l.Close()
	for !l.Drained() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// directEnv implements the interface of package direct for this process.
type directEnv driver

var _ direct.Env = (*directEnv)(nil)

// Go runs f on a goroutine of the process.
func (v *directEnv) Go(f func()) { v.group.Go(f) }

// Send sends a control message. A lost one is made good by a time-out.
func (v *directEnv) Send(to transport.Peer, body []byte) {
	b := wire.SealControl(v.cfg.Cluster, v.self, wire.ControlTopic_CONTROL_TOPIC_DIRECT, body)
	_ = (*driver)(v).link().Send(transport.Control, to, 0, b)
}

// errUnknownTransport is the answer of a transport that says nothing about its connection.
var errUnknownTransport = errors.New("the transport does not say whether it is encrypted")

// Confidential returns nil if others cannot read the messages of the broker.
func (v *directEnv) Confidential() error {
	c, ok := (*driver)(v).link().(transport.Confidential)
	if !ok {
		return errUnknownTransport
	}
	return c.Confidential()
}

// MaxPayload is the largest frame, in bytes.
func (v *directEnv) MaxPayload() int { return max((*driver)(v).link().MaxPayload(), minPayload) }

// Carry begins a lane on the connection.
func (v *directEnv) Carry(c *direct.Conn) {
	drv := (*driver)(v)
	l := newLane(drv, transport.Channel(c.Lane()), directSource{drv, c})
	l.end = func(error) {
		if p := drv.peers.Known(c.Peer().Address, c.Lane()); p != nil {
			p.Leave(c)
			if c.Why().IsFault() && !p.IsGone() {
				p.AckSoon() // the broker's answer says whether the peer is still there
				p.Flush()
			}
		}
		drv.direct.Load().Ended(c)
	}
	if p := drv.peers.Session(c.Peer(), c.Lane()); p != nil {
		directSource{drv, c}.Carries(p)
	}
	drv.group.Go(l.run)
}

// directCounts maps the events of package direct to the counters of this process.
var directCounts = [...]reason{direct.Opened: directOpened, direct.Refused: directRefused, direct.Stranger: directStranger}

// Count counts an event.
func (v *directEnv) Count(e direct.Event) (n uint64, tell bool) {
	return v.counters.addSeldom(directCounts[e])
}

// Closed counts a connection that has ended.
func (v *directEnv) Closed(peer transport.Peer, lane int, why agree.Reason) {
	v.counters.add(directEnded + reason(why))
	if why.IsFault() {
		v.log.Info("direct lane ended; calls go on over the broker", "peer", peer.Address.String(), "lane", lane, "why", why.String())
	}
}

// Log logs a line.
func (v *directEnv) Log(text string, args ...any) { v.log.Warn(text, args...) }

// directSource is a lane of a direct connection.
type directSource struct {
	driver *driver
	conn   *direct.Conn
}

var _ source = directSource{}

// Receive waits for the next frame.
func (s directSource) Receive() (transport.Message, error) { return s.conn.Receive() }

// TryReceive returns a frame that was read already.
func (s directSource) TryReceive() (transport.Message, bool) { return s.conn.TryReceive() }

// Vouches reports whether a frame names the process whose key the connection has.
func (s directSource) Vouches(_ transport.Message, sender transport.Peer) bool {
	return sender == s.conn.Peer()
}

// Foreign ends the connection.
func (s directSource) Foreign() { s.conn.Fail(agree.Forged) }

// Carries has the connection carry the frames of a session with the peer, which may be new.
func (s directSource) Carries(p *peers.Session) {
	if p.Carrier() == peers.Carrier(s.conn) || s.conn.HasEnded() {
		return
	}
	p.Use(s.conn)
	if s.conn.HasEnded() {
		p.Leave(s.conn)
	}
}
