package shard

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/control"
	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// errNotJoined: nobody can be asked before Start has returned.
var errNotJoined = errors.New("the node has not joined (call Start first)")

// inquire asks now and every control.ResendEvery, until ask or got, on the control loop,
// find that enough was heard; or until ctx ends, whose error it returns.
func inquire(ctx context.Context, c *controlLoop, ask func(id uint64) bool, got func(transport.Address, coordinator.Message) bool) error {
	if c.member.View() == nil {
		return errNotJoined
	}
	var id uint64 // the loop's
	done := make(chan struct{})
	conclude := func(enough bool) {
		if enough {
			c.member.Conclude(id)
			close(done)
		}
	}
	c.loop.Post(func() {
		id = c.member.Inquire(func(from transport.Address, m coordinator.Message) { conclude(got(from, m)) })
		conclude(ask(id))
	})
	again := time.NewTicker(control.ResendEvery)
	defer again.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-again.C:
			c.loop.Post(func() {
				if c.member.Inquires(id) {
					conclude(ask(id))
				}
			})
		case <-c.plane.stop:
			return c.plane.errClosed()
		case <-ctx.Done():
			return giveUp(ctx, c, &id)
		}
	}
}

// giveUp ends an inquiry; when it returns, got is not called any more.
func giveUp(ctx context.Context, c *controlLoop, id *uint64) error {
	ended := make(chan struct{})
	c.loop.Post(func() {
		c.member.Conclude(*id)
		close(ended)
	})
	select {
	case <-ended:
		return ctx.Err()
	case <-c.plane.stop:
		return c.plane.errClosed()
	}
}
