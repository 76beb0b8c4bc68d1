package control

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// A life of a cluster begins when a node founds it and ends with its last member.
// The next one of the same name counts its terms, epochs and tables from the
// beginning, so none of them can be compared with those of another life.
//
// A client is always in the life of the member that serves it. It leaves that life
// only when that member does not serve it any more and a member of another life
// answers a hello that was sent since. So nothing that was said before can take it
// back; and of two clusters of one name it is served by the one that stays as soon
// as the other one has given way, for its members do not serve then.
type life struct {
	founder transport.Address // zero: the client was never served
	hello   uint64            // the latest hello that was sent
	since   uint64            // the first hello since the client looks for a member
	helloAt time.Time         // when the latest hello was sent
	later   time.Time         // when a welcome of another life was first put off; zero means that none was
}

// putOffFor is how long a client stays in a life at most because calls to it await bounces. A
// bounce takes a round trip to the broker.
const putOffFor = 200 * time.Millisecond

// welcomed takes a member's welcome. It reports whether that member serves this
// client.
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

// putOff reports whether the client stays in its life for now, and says hello again soon. It
// does while calls await bounces, because such a call would fail with an unknown outcome, and
// after the bounce it goes to the next home.
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

// notServed answers a member whose welcome comes too late: another one serves.
func (c *Client) notServed(from transport.Peer) {
	c.env.Count(Ignored)
	if !c.gateway.IsZero() {
		c.send(from, &wire.Gateway{Bye: &wire.GatewayBye{}})
	}
}

// beginAnew forgets everything about the former life, and logs that.
func (c *Client) beginAnew(before transport.Address, members map[transport.Address]bool) {
	c.follower, c.follow = coordinator.NewFollower(false), time.Time{}
	c.digest, c.members = 0, nil
	clear(c.absent)
	clear(c.parted)
	c.seekers.BeginAnew()
	c.env.BeginAnew(members)
	c.env.Log(Warn, "the cluster was founded anew: this client follows it, and what entities kept in memory is gone",
		"cluster", c.cfg.Cluster, "founder", c.life.founder.String(), "before", before.String(), "served by", c.gateway.String())
	c.seekers.WantWaiting(func(kind string) bool { return c.env.Waiting(kind) > 0 })
}

// search looks for a member that serves this client: from the next hello on, which
// is said at that time at the latest.
func (c *Client) search(at time.Time) {
	if !c.gateway.IsZero() {
		c.gateway, c.helloAt = transport.Peer{}, at
		c.life.since = c.life.hello + 1
	}
	if at.Before(c.helloAt) {
		c.helloAt = at
	}
}
