package shard

import (
	"context"
	"errors"
	"fmt"
)

// Join makes a node started with Config.JoinByCommand join the cluster, through the nodes named by
// seeds or, without seeds, as its config says. If the first seed is this node, it founds the
// cluster when no other seed answers. Join returns nil when the node is Up, and otherwise an error
// with the reason. The end of ctx ends only the waiting; the node goes on joining. A further call
// waits like the first.
func (n *Node) Join(ctx context.Context, seeds ...string) error {
	if !n.cfg.JoinByCommand {
		return fmt.Errorf("join node %s: the node joins at Start (to join by Join, set Config.JoinByCommand)", n.cfg.Name)
	}
	if err := n.order(ctx, "join node "+n.cfg.Name, func() error { return n.control.member.Join(seeds) }); err != nil {
		return err
	}
	if n.awaitUp(ctx) {
		return n.startErr()
	}
	return fmt.Errorf("join node %s: %w: %s", n.cfg.Name, ctx.Err(), n.whyNotUp())
}

// Down downs a member: "name", or "name#incarnation" if several members have the name. The member's
// shards get new homes, so make sure before that the member has stopped. Without force Down refuses
// to down a member that is up and reachable. A downed node that is alive stops itself with
// [ErrDowned].
func (n *Node) Down(ctx context.Context, member string, force bool) error {
	return n.order(ctx, "down "+member, func() error { return n.control.member.Down(member, force) })
}

var errNotStarted = errors.New("the node is not started (call Start first)")

// order runs f on the control loop of a running node, and returns f's error.
func (n *Node) order(ctx context.Context, op string, f func() error) error {
	n.mu.Lock()
	state := n.state
	n.mu.Unlock()
	if state == stateNew || state == stateOpening {
		return fmt.Errorf("%s: %w", op, errNotStarted)
	}
	done := make(chan error, 1)
	n.control.loop.Post(func() { done <- f() })
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	case <-n.done:
		return fmt.Errorf("%s: %w", op, n.driver.ErrClosed())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: the control loop of node %s has not carried it out yet (try again)", op, ctx.Err(), n.cfg.Name)
	}
}
