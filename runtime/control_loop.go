package shard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/tablestore"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A controlLoop runs a member's control plane on the goroutine that calls run. Its other methods
// may be called from any goroutine.
type controlLoop struct {
	node   *Node
	driver *node.Driver
	link   transport.Link // set before run
	loop   *tasks.Loop
	member *control.Member   // used on the loop, except for methods that are safe for concurrent use
	table  *tablestore.Store // nil unless the members agree by a table
	serves serving
	asking map[transport.Address]message.ServerMark // the servers being asked, by the member in question; used on the loop
	pulse  node.Pulse

	outside   node.Outsiders
	suspectMu sync.Mutex
	suspects  map[transport.Address]time.Time // when last reported
}

func newControlLoop(n *Node) *controlLoop {
	c := &controlLoop{node: n, driver: n.driver, loop: tasks.NewLoop(), suspects: map[transport.Address]time.Time{}, asking: map[transport.Address]message.ServerMark{}}
	if t := n.cfg.Membership.Table.Store; t != nil {
		c.table = tablestore.New(t.Members(n.cfg.Cluster))
	}
	c.member = control.New(control.Config{
		Cluster: n.cfg.Cluster, Self: n.driver.Local, Lanes: n.cfg.Lanes,
		Seeds: n.cfg.Seeds, SeedTimeout: n.cfg.Membership.SeedTimeout, JoinTimeout: n.cfg.Membership.JoinTimeout,
		JoinByCommand: n.cfg.Membership.JoinByCommand, QuarantineAfter: n.cfg.Membership.QuarantineAfter,
		Capacity: thousandths(n.driver.Load.Capacity()), Zone: n.cfg.Zone,
	}, (*controlEnv)(c))
	return c
}

func (c *controlLoop) run(stop <-chan struct{}) {
	c.loop.Post(c.member.Begin)
	c.loop.Run(stop, c.member.Tick, c.member.WakeAt)
}

func (c *controlLoop) receive() {
	for {
		m, err := c.link.Receive(transport.Control)
		if err != nil {
			if !errors.Is(err, transport.ErrClosed) {
				c.node.log.Error("control channel stopped", "err", err)
			}
			return
		}
		at := time.Now()
		if m.From.IsZero() || m.Kind == transport.Unreachable {
			c.loop.Post(func() { c.member.Receive(m, at) })
			continue
		}
		if !c.outside.Enter(m.From.Name, at) {
			c.driver.Counts.Add(node.ClientOverQuota)
			continue
		}
		c.loop.Post(func() {
			c.member.Receive(m, at)
			c.outside.Leave(m.From.Name)
		})
	}
}

func (c *controlLoop) connState(s transport.State) {
	c.loop.Post(func() { c.member.ConnState(s) })
}

// leave begins leaving in order. exit lets the node keep its remaining shards until it ends.
func (c *controlLoop) leave() { c.loop.Post(c.member.Leave) }
func (c *controlLoop) exit()  { c.loop.Post(c.member.Exit) }

// The following methods implement node.ControlPlane, for the data plane.

func (c *controlLoop) Ask(kind string) { c.loop.Post(func() { c.member.Ask(kind) }) }

func (c *controlLoop) MoveDone(id placement.ShardID, epoch placement.Epoch) {
	c.loop.Post(func() { c.member.MoveDone(id, epoch) })
}

func (c *controlLoop) MoveAborted(id placement.ShardID, epoch placement.Epoch, reason string) {
	c.loop.Post(func() { c.member.MoveAborted(id, epoch, reason) })
}

func (c *controlLoop) Progress(id placement.ShardID) {
	c.loop.Post(func() { c.member.Progress(id) })
}

func (c *controlLoop) TurnAway(client transport.Peer, why string) {
	c.loop.Post(func() { c.member.TurnAway(client, why) })
}

func (c *controlLoop) Knows(a transport.Address) bool {
	return c.member.Knows(a)
}

func (c *controlLoop) Suspect(a transport.Address) {
	c.suspectMu.Lock()
	now := time.Now()
	recent := now.Sub(c.suspects[a]) < 100*time.Millisecond
	if !recent {
		c.suspects[a] = now
	}
	if len(c.suspects) > 1024 {
		clear(c.suspects)
	}
	c.suspectMu.Unlock()
	if !recent {
		c.loop.Post(func() { c.member.Suspect(a) })
	}
}

func (c *controlLoop) Escalate(err error) { c.loop.Post(func() { c.node.fail(err) }) }

func (c *controlLoop) ShardsOf(kind string) uint32 {
	return c.driver.ShardTable.Load().Type(kind).Shards()
}

// Why returns the latest reason why the kind's shards lack homes.
func (c *controlLoop) Why(kind string, now time.Time) string {
	return c.member.Reasons().Said(kind, now)
}

// Waits returns why calls of the kind wait, and whether any member hosts the kind, as far as this
// member knows.
func (c *controlLoop) Waits(kind string, now time.Time) (why string, hosted bool) {
	v, self := c.member.View(), c.driver.Local.Name
	if v == nil || v.SelfStatus < membership.WeaklyUp {
		return fmt.Sprintf("node %s is not up yet", self), true
	}
	if v.SelfStatus != membership.WeaklyUp && !c.driver.Lease.Lasts() {
		return node.NoContact(self), true
	}
	if !hostmeta.Hosted(v, kind) {
		return fmt.Sprintf("%s is hosted by none of the %d members (start a node that calls Host%s)", kind, len(v.ByAge), kind), false
	}
	if why := c.member.Reasons().Lately(kind, now); why != "" {
		return why, true
	}
	for _, m := range v.ByAge {
		if m.Status == membership.Down && m.MayRun() {
			return fmt.Sprintf("%s was downed, and its shards wait until it certainly runs no turns", m.Name), true
		}
	}
	for _, m := range v.ByAge {
		if !m.Reachable && m.Status != membership.Down {
			return fmt.Sprintf("%s cannot be reached (%v) and is not downed yet", m.Name, m.Evidence), true
		}
	}
	return "the coordinator has not given it one", true
}
