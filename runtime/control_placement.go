package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// sendPlacement sends a coordinator's or a follower's message; what goes to this
// node takes the short way.
func (c *control) sendPlacement(to transport.Peer, m coordinator.Message) {
	if to.Address == c.self {
		c.loop.Post(func() { c.placementMessage(c.plane.self, m) })
		return
	}
	body, err := coordinator.Encode(m)
	c.send(to, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR, body, err)
}

// placementMessage brings a message to the coordinator or to the follower.
func (c *control) placementMessage(from transport.Peer, m coordinator.Message) {
	switch m := m.(type) {
	case coordinator.Inspect:
		c.sendPlacement(from, coordinator.Inspected{ID: m.ID, Shards: c.node.held(m.Kind)})
		return
	case coordinator.Inspected:
		c.inquiries.answered(m.ID, from.Address, m)
		return
	case coordinator.Register, coordinator.Ask, coordinator.TableRequest, coordinator.Place, coordinator.PinsKept, coordinator.Explain, coordinator.MoveStatus,
		coordinator.MoveDone, coordinator.MoveAborted, coordinator.MoveCancelled:
		if from.Client {
			c.gateway.placement(from, m)
		} else if c.coord != nil {
			c.stepCoordinator(coordinator.Receive{From: from.Address, Message: m})
		}
		return
	}
	if !from.Client && c.stepFollower(from.Address, m) {
		c.reports.order(m)
	}
}

// stepFollower follows the table. It reports whether the message is to be obeyed.
func (c *control) stepFollower(from transport.Address, m coordinator.Message) bool {
	before := c.follower.Coordinator()
	out := c.follower.Step(time.Now(), from, m)
	c.wakes[wakeFollower] = out.WakeAt
	if c.follower.Coordinator() != before {
		c.reports.at = time.Now() // what the former one was told may be lost with it
	}
	if out.Table != nil {
		c.plane.setTable(out.Table)
		c.reports.tableChanged(out.Table)
		c.gateway.tableChanged(out.Table)
		c.askForRemembered()
		c.checkExit()
	}
	if out.Register {
		kinds, owned := c.node.inventory()
		c.sendPlacement(transport.Peer{Address: out.Coordinator}, c.follower.Register(c.self, kinds, owned))
	}
	for _, msg := range out.Send {
		c.sendPlacement(transport.Peer{Address: out.Coordinator}, msg)
	}
	return !out.Refused
}

// coordinatorAddress is whom to ask.
func (c *control) coordinatorAddress() transport.Address {
	if a := c.follower.Coordinator(); !a.IsZero() {
		if v := c.view.Load(); v != nil {
			if m, ok := v.Member(a); ok && m.Status < membership.Exiting {
				return a
			}
		}
	}
	return c.manager.Oldest()
}
