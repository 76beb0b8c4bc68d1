package shard

import (
	"context"
	"log/slog"

	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
)

// serve tells the broker whether processes without a table may be sent here. It
// does not wait for the broker: the loop must go on.
func (c *control) serve(on bool) {
	c.serves.Store(on)
	c.plane.wg.Go(func() {
		c.serveMu.Lock() // the broker must hear the last wish last
		defer c.serveMu.Unlock()
		ctx, cancel := context.WithTimeout(c.plane.ctx, serveTimeout)
		defer cancel()
		on := c.serves.Load()
		if err := c.link.Serve(ctx, on); err != nil && !c.plane.closed() {
			c.node.log.Warn("broker not told whether clients are served here", "serve", on, "err", err)
		}
	})
}

// leave begins leaving in order.
func (c *control) leave() {
	c.loop.Post(func() {
		c.stepMembers(membership.Leave{})
		c.checkExit()
	})
}

// exit gives leaving in order up: shards that are still here stay.
func (c *control) exit() {
	c.loop.Post(func() {
		if !c.exitReady {
			c.singles.Abandon()
			c.readyToExit()
		}
	})
}

// checkExit tells the cluster when this leaving node has nothing left to give.
func (c *control) checkExit() {
	v := c.view.Load()
	if c.exitReady || v == nil || v.SelfStatus != membership.Leaving {
		return
	}
	if !c.singles.Settled() {
		return
	}
	if !c.otherHosts(v) {
		c.readyToExit()
		return
	}
	if c.node.holdsShards() {
		return
	}
	c.plane.exiting.Store(true) // nothing comes in from here on
	if c.node.holdsShards() {   // but something came before
		c.plane.exiting.Store(false)
		return
	}
	c.readyToExit()
}

// readyToExit lets the cluster remove this node, which takes no shard from now on.
func (c *control) readyToExit() {
	c.exitReady = true
	c.plane.exiting.Store(true)
	c.stepMembers(membership.ExitReady{})
}

// otherHosts reports whether anybody could take this node's shards.
func (c *control) otherHosts(v *membership.View) bool {
	for _, m := range v.ByAge {
		if m.Address != c.self && m.Status == membership.Up && hostmeta.HostsAny(m.Member) {
			return true
		}
	}
	return false
}

// logRemoved notes that a member was removed. When many leave together, those that left
// in order are no news at the others.
func (c *control) logRemoved(m membership.Member) {
	level, inOrder := slog.LevelInfo, m.Status == membership.Leaving || m.Status == membership.Exiting
	if inOrder && c.plane.leaving.Load() {
		level = slog.LevelDebug
	}
	c.node.log.Log(context.Background(), level, "member removed", "member", m.Address.String(), "was", m.Status.String())
}
