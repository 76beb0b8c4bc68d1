package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/driver/direct"
	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// DirectBackOff is the pause after a direct lane failed, before the next try. Tests set less.
var DirectBackOff = agree.MinBackOff

// OpenDirect prepares direct lanes if the config enables them. They start when the driver opens.
// ctx may hold a direct.Dialer.
func (drv *Driver) OpenDirect(ctx context.Context) error {
	if !drv.Config.directEnabled() {
		return nil
	}
	cfg := direct.Config{
		Self: drv.Local, Lanes: drv.Config.Lanes, Listen: drv.Config.DirectListen, Advertise: drv.Config.DirectAdvertise,
		Waiting: 4 * drv.Config.Window, Dialer: direct.DialerOf(ctx), BackOff: DirectBackOff,
	}
	if drv.Local.Client {
		cfg.Listen = ""
	}
	l, err := direct.New(cfg, (*directEnv)(drv))
	if err != nil {
		return fmt.Errorf("direct lanes: %w", err)
	}
	drv.Direct.Store(l)
	return nil
}

// DirectMessage handles a control message about direct lanes. A process without direct lanes
// ignores it, and the sender stays on the broker.
func (drv *Driver) DirectMessage(from transport.Peer, body []byte) error {
	l := drv.Direct.Load()
	if l == nil {
		drv.Counts.Add(FrameIgnored)
		return nil
	}
	return l.Receive(from, body)
}

type directEnv Driver

var _ direct.Env = (*directEnv)(nil)

func (v *directEnv) Go(f func()) { v.Group.Go(f) }

// Send sends a control message about direct lanes. A lost message is not sent again; its sender
// gives the agreement up after a time-out.
func (v *directEnv) Send(to transport.Peer, body []byte) {
	b := wire.SealControl(v.Config.Cluster, v.Local, wire.ControlTopic_CONTROL_TOPIC_DIRECT, body)
	_ = (*Driver)(v).Link().Send(transport.Control, to, 0, b)
}

var errUnknownTransport = errors.New("the transport does not report whether its connection is encrypted")

// Confidential returns nil if the connection to the broker is encrypted or local, and otherwise an
// error.
func (v *directEnv) Confidential() error {
	c, ok := (*Driver)(v).Link().(transport.Confidential)
	if !ok {
		return errUnknownTransport
	}
	return c.Confidential()
}

// MaxPayload is the largest frame, in bytes.
func (v *directEnv) MaxPayload() int { return max((*Driver)(v).Link().MaxPayload(), minPayload) }

// Carry starts a lane that receives the frames of the connection.
func (v *directEnv) Carry(c *direct.Conn) {
	drv := (*Driver)(v)
	l := newLane(drv, transport.Channel(c.Lane()), c)
	l.end = func(error) {
		if p := drv.Sessions.Known(c.Peer().Address, c.Lane()); p != nil {
			p.Leave(c)
			if c.Why().IsFault() && !p.HasDeparted() {
				p.AckSoon() // the broker's answer says whether the peer is still there
				p.Flush()
			}
		}
		drv.Direct.Load().Ended(c)
	}
	if p := drv.Sessions.Session(c.Peer(), c.Lane()); p != nil {
		l.carry(p)
	}
	drv.Group.Go(l.run)
}

// Wanted makes the connection c carry the session with its peer. It is called when a session wants
// a direct lane although c exists: the session is younger than c, or has gone back to the broker.
func (v *directEnv) Wanted(c *direct.Conn) {
	if p := v.Sessions.Known(c.Peer().Address, c.Lane()); p != nil && c.IsHeard() {
		p.Use(c)
	}
}

var directCounts = [...]Reason{direct.Opened: directOpened, direct.Refused: directRefused, direct.Stranger: directStranger}

func (v *directEnv) Count(e direct.Counter) (n uint64, tell bool) {
	return v.Counts.AddSeldom(directCounts[e])
}

// Closed counts a connection that has ended. It does not log most connections of clients, because
// clients can open and break any number of them.
func (v *directEnv) Closed(peer transport.Peer, lane int, why agree.Reason) {
	n, tell := (*Driver)(v).AddSeldomOf(directEnded+Reason(why), peer.Name)
	if why.IsFault() && (tell || !peer.Client) {
		v.Logger.Info("direct lane ended; calls go on over the broker", "peer", peer.Address.String(), "lane", lane, "why", why.String(), "count", n)
	}
}

func (v *directEnv) Log(text string, args ...any) { v.Logger.Warn(text, args...) }
