package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// Intervals and time limits of a Client.
const (
	AskDelay   = 5 * time.Millisecond   // how long requests for homes are collected for one hello
	seekEvery  = 100 * time.Millisecond // interval of hellos while no member serves the process
	silence    = 3 * HelloEvery         // silence of the gateway after which the client looks for another member
	byeAllowed = 3 * time.Second        // how long a former member may still say goodbye
)

// A Client is the control plane of a process outside the cluster. It looks for a member that serves
// the process: the gateway, which sends the shard table and the list of members. Like a [Member], a
// Client is used only on the control loop.
type Client struct {
	env      ClientEnv
	cfg      ClientConfig
	follower *coordinator.Follower
	seekers  *singlehost.Seekers

	gateway transport.Peer // zero: none found yet
	life    life           // the life of the cluster that the client is in
	heard   time.Time      // when the gateway last sent something
	asks    map[string]bool
	helloAt time.Time
	follow  time.Time                       // when the next step of follower is due; zero means never
	digest  uint64                          // identifies the list in members
	members map[transport.Address]bool      // the members according to the gateway
	absent  map[transport.Address]time.Time // when each peer was first found not to be a member
	parted  map[transport.Address]bool      // peers that the client has parted with in this life
}

// NewClient returns a Client without a gateway.
func NewClient(cfg ClientConfig, env ClientEnv) *Client {
	c := &Client{
		env: env, cfg: cfg, follower: coordinator.NewFollower(false),
		asks: map[string]bool{}, absent: map[transport.Address]time.Time{},
		parted: map[transport.Address]bool{},
	}
	c.seekers = cfg.Seekers(seeking{env, c})
	return c
}

// Gateway returns the member that serves the process; zero means none.
func (c *Client) Gateway() transport.Peer { return c.gateway }

// WakeAt returns when Tick is due.
func (c *Client) WakeAt() time.Time {
	at := c.helloAt
	if !c.follow.IsZero() && c.follow.Before(at) {
		at = c.follow
	}
	return c.seekers.WakeAt(at)
}

// Tick says hello to the gateway, or looks for a member that serves the process.
func (c *Client) Tick() {
	now := c.env.Now()
	c.seekers.Tick(now)
	if due(c.follow, now) {
		c.step(c.gateway.Address, nil)
	}
	if now.Before(c.helloAt) {
		return
	}
	if !c.gateway.IsZero() && now.Sub(c.heard) > silence {
		c.search(now)
	}
	c.helloAt = now.Add(HelloEvery)
	if c.gateway.IsZero() {
		c.helloAt = now.Add(seekEvery)
	}
	c.hello()
}

func (c *Client) hello() {
	c.life.hello++
	c.life.helloAt = c.env.Now()
	m := &wire.GatewayHello{Lanes: uint32(c.cfg.Lanes), Frame: wire.FrameVersion, Members: c.digest, Seq: c.life.hello}
	if c.gateway.IsZero() {
		m.Members = 0 // the receiver may be a member of another life of the cluster, whose list is needed in any case
	}
	for _, kind := range slices.Sorted(maps.Keys(c.asks)) {
		if c.env.Waiting(kind) == 0 {
			delete(c.asks, kind)
			continue
		}
		m.Asks = append(m.Asks, kind)
	}
	c.send(c.gateway, &wire.Gateway{Hello: m})
}

// Bye says goodbye to the member that serves the process.
func (c *Client) Bye() { c.send(c.gateway, &wire.Gateway{Bye: &wire.GatewayBye{}}) }

// send sends a message to a member or, if to is zero, to any member that serves clients.
func (c *Client) send(to transport.Peer, m *wire.Gateway) {
	body, err := proto.Marshal(m)
	if err != nil {
		c.env.Log(Error, "gateway message not sent", "err", err)
		return
	}
	c.sendBody(to, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body)
}

func (c *Client) sendBody(to transport.Peer, topic wire.ControlTopic, body []byte) {
	b := wire.SealControl(c.cfg.Cluster, c.cfg.Self, topic, body)
	if to.IsZero() {
		_ = c.env.Link().Anycast(0, b) // repeated until somebody answers
	} else {
		_ = c.env.Link().Send(transport.Control, to, 0, b)
	}
}

// Receive handles one message of the control channel.
func (c *Client) Receive(m transport.Message) {
	if m.Kind == transport.Unreachable {
		if len(m.Payload) > 0 {
			c.env.Refused(errors.New(string(m.Payload)))
			return
		}
		if !m.From.IsZero() && m.From == c.gateway.Address {
			c.search(c.env.Now().Add(AskDelay))
		}
		return
	}
	from, topic, body, err := wire.OpenControl(c.cfg.Cluster, m.Payload)
	if err == nil && !wire.Vouched(m, from) {
		err = wire.ErrForged
	}
	if err == nil {
		err = c.dispatch(from, topic, body)
	}
	if err != nil {
		c.env.Count(Foreign)
	}
}

func (c *Client) dispatch(from transport.Peer, topic wire.ControlTopic, body []byte) error {
	switch topic {
	case wire.ControlTopic_CONTROL_TOPIC_GATEWAY:
		var m wire.Gateway
		if err := proto.Unmarshal(body, &m); err != nil {
			return err
		}
		c.gatewayMessage(from, &m)
	case wire.ControlTopic_CONTROL_TOPIC_SINGLETON:
		msg, err := singleton.Decode(body)
		if err != nil {
			return err
		}
		if !c.seekers.Message(from.Address, msg) {
			c.env.Count(Ignored)
		}
	case wire.ControlTopic_CONTROL_TOPIC_COORDINATOR:
		msg, err := coordinator.Decode(body)
		if err != nil {
			return err
		}
		c.placement(from, msg)
	case wire.ControlTopic_CONTROL_TOPIC_DIRECT:
		return c.env.Direct(from, body)
	}
	return nil
}

// placement handles a message from the gateway, the member that serves this client. It ignores
// messages of other senders, because these may belong to another life of the cluster (see [life]).
func (c *Client) placement(from transport.Peer, msg coordinator.Message) {
	if from.Address != c.gateway.Address {
		c.env.Count(Ignored)
		return
	}
	c.heardNow()
	if n, ok := msg.(coordinator.NoHome); ok {
		c.env.SetWhy(n.Type, n.Reason)
	}
	c.step(from.Address, msg)
}

func (c *Client) gatewayMessage(from transport.Peer, m *wire.Gateway) {
	switch {
	case m.GetBye() != nil:
		if c.gateway.IsZero() || from.Address == c.gateway.Address {
			c.search(c.env.Now().Add(AskDelay))
		}
	case m.GetRefusal() != nil:
		why := fmt.Errorf("%s refuses this process: %s", from.Name, bounded.Text(m.GetRefusal().GetReason()))
		c.env.Refused(why)
		if !c.gateway.IsZero() { // the refusal answers a call: hellos go only to the gateway, which has accepted one
			c.env.TurnedAway(from.Address, why)
		}
	case m.GetWelcome() != nil:
		if !c.welcomed(from, m.GetWelcome()) {
			c.notServed(from)
			return
		}
		c.heardNow()
		c.meet(m.GetWelcome())
		kinds := map[string]uint32{}
		for _, k := range m.GetWelcome().GetKinds() {
			kinds[k.GetName()] = k.GetShards()
		}
		c.env.Served(kinds)
	}
}

func (c *Client) heardNow() {
	c.heard = c.env.Now()
	c.env.Heard(c.heard)
}

func (c *Client) meet(w *wire.GatewayWelcome) {
	if len(w.GetMembers()) > 0 {
		c.digest, c.members = w.GetDigest(), addressesOf(w.GetMembers())
	}
	for _, n := range w.GetLost() {
		c.part(AddressOf(n))
	}
	// The former gateway was on the losing side of a split, and had downed a member.
	for _, a := range slices.SortedFunc(maps.Keys(c.parted), transport.Address.Compare) {
		if c.members[a] {
			delete(c.parted, a)
			c.env.PeerBack(a)
		}
	}
	c.partWithAbsent()
}

func addressesOf(nodes []*wire.GatewayNode) map[transport.Address]bool {
	all := map[transport.Address]bool{}
	for _, n := range nodes {
		all[AddressOf(n)] = true
	}
	return all
}

func (c *Client) part(a transport.Address) {
	c.parted[a] = true
	c.env.PeerGone(a)
	c.seekers.Lost(a)
}

// partWithAbsent closes the sessions with peers that have not been members for byeAllowed. A
// bounce, the broker's report that nobody listens, does not suffice: a leaving process stops
// listening before it says goodbye.
func (c *Client) partWithAbsent() {
	now := c.env.Now()
	for _, a := range c.env.Peers() {
		since, absent := c.absent[a]
		switch {
		case c.members[a]:
			if absent {
				delete(c.absent, a)
				c.env.PeerBack(a)
			}
		case !absent:
			c.absent[a] = now
			c.env.PeerAbsent(a)
		case now.Sub(since) >= byeAllowed:
			delete(c.absent, a)
			c.part(a)
		}
	}
}

func (c *Client) step(from transport.Address, m coordinator.Message) {
	out := c.follower.Step(c.env.Now(), from, m)
	c.follow = out.WakeAt
	if out.Table != nil {
		c.env.SetTable(out.Table)
	}
	for _, msg := range out.Send {
		if body, err := coordinator.Encode(msg); err == nil {
			c.sendBody(c.gateway, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body)
		}
	}
}

// Ask asks for a home for a type's shards, or looks for a singleton's instance.
func (c *Client) Ask(kind string) {
	if c.seekers.Want(kind) {
		return
	}
	if !c.asks[kind] {
		c.asks[kind] = true
		c.helloAt = c.env.Now().Add(AskDelay)
	}
}

// Suspect records that nobody listens at a peer's address, and sends the gateway a hello soon. If
// the cluster's members have all stopped, the gateway does not answer the hello, and the client
// looks for another gateway.
func (c *Client) Suspect() {
	if now := c.env.Now(); !c.gateway.IsZero() && now.Sub(c.life.helloAt) >= AskDelay {
		c.helloAt = now
	}
}

type seeking struct {
	ClientEnv
	c *Client
}

var _ singlehost.Client = seeking{}

// Member returns the member that serves the process; zero means none.
func (s seeking) Member() transport.Address { return s.c.gateway.Address }

func (s seeking) Send(to transport.Peer, m singleton.Message) {
	if body, err := singleton.Encode(m); err == nil {
		s.c.sendBody(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body)
	}
}

// A life of a cluster begins when a node founds the cluster, and ends with the cluster's last
// member. If the cluster is founded again under the same name, its terms, epochs and tables start
// again. Therefore terms, epochs and tables of different lives cannot be compared.
//
// A client is always in the life of its gateway, the member that serves the client. The client
// changes to another life in two steps: its gateway stops serving it, and a member of the other
// life answers a hello that the client has sent since then. So a late message of a former life can
// never take the client back. If two clusters with the same name exist at once, the members of one
// of them stop serving. Members of the other cluster then serve the client.
type life struct {
	founder transport.Address // identifies the life; zero: the client was never served
	hello   uint64            // number of the latest hello
	since   uint64            // number of the first hello of the current search for a member
	helloAt time.Time         // when the latest hello was sent
	later   time.Time         // when a welcome of another life was first put off; zero means that none was
}

// putOffFor bounds how long calls that await a bounce delay the change to another life. A bounce,
// the broker's report that nobody listens, takes a round trip.
const putOffFor = 200 * time.Millisecond

func (c *Client) welcomed(from transport.Peer, w *wire.GatewayWelcome) bool {
	if !c.gateway.IsZero() {
		return from.Address == c.gateway.Address
	}
	if w.GetFounder() == nil || w.GetHello() < c.life.since || w.GetHello() > c.life.hello {
		return false
	}
	before, founder := c.life.founder, AddressOf(w.GetFounder())
	anew := !before.IsZero() && before != founder
	if anew && c.putOff() {
		c.send(from, &wire.Gateway{Bye: &wire.GatewayBye{}})
		return false
	}
	c.gateway, c.life.founder, c.life.later = from, founder, time.Time{}
	if anew {
		c.beginAnew(before, addressesOf(w.GetMembers()))
	}
	c.seekers.Guided()
	return true
}

// putOff reports whether to delay the change to another life because calls await bounces. The
// change would end such a call with an unknown outcome. After its bounce, the call goes to the
// shard's next home.
func (c *Client) putOff() bool {
	now := c.env.Now()
	if !c.env.AwaitsBounce() {
		return false
	}
	if c.life.later.IsZero() {
		c.life.later = now
	}
	waited := now.Sub(c.life.later)
	if waited >= putOffFor {
		return false
	}
	// The pauses double, because all clients of a cluster that has ended may be in this state at once.
	c.search(now.Add(min(max(AskDelay, waited), putOffFor-waited)))
	return true
}

func (c *Client) notServed(from transport.Peer) {
	c.env.Count(Ignored)
	if !c.gateway.IsZero() {
		c.send(from, &wire.Gateway{Bye: &wire.GatewayBye{}})
	}
}

func (c *Client) beginAnew(before transport.Address, members map[transport.Address]bool) {
	c.follower, c.follow = coordinator.NewFollower(false), time.Time{}
	c.digest, c.members = 0, nil
	clear(c.absent)
	clear(c.parted)
	c.seekers.BeginAnew()
	c.env.BeginAnew(members)
	c.env.Log(Warn, "the cluster was founded again: this client now uses the new cluster, and the state of volatile entities is lost",
		"cluster", c.cfg.Cluster, "founder", c.life.founder.String(), "before", before.String(), "served by", c.gateway.String())
	c.seekers.WantWaiting(func(kind string) bool { return c.env.Waiting(kind) > 0 })
}

// search makes the client look for a member to serve it, at the given time or earlier.
func (c *Client) search(at time.Time) {
	if !c.gateway.IsZero() {
		c.gateway, c.helloAt = transport.Peer{}, at
		c.life.since = c.life.hello + 1
	}
	if at.Before(c.helloAt) {
		c.helloAt = at
	}
}
