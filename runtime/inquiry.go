package shard

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// errNotJoined is returned for questions to the cluster before Start has returned.
var errNotJoined = errors.New("the node has not joined (call Start first)")

// inquire calls ask at once and then every control.ResendEvery, and it calls got with each answer.
// It ends when ask or got returns true, or ctx ends.
func inquire(ctx context.Context, c *controlLoop, ask func(id uint64) bool, got func(transport.Address, coordinator.Message) bool) error {
	if c.member.View() == nil {
		return errNotJoined
	}
	var id uint64 // of this inquiry; used on the loop
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
		case <-c.driver.Stop:
			return c.driver.ErrClosed()
		case <-ctx.Done():
			return giveUp(ctx, c, &id)
		}
	}
}

// giveUp ends an inquiry; afterwards got is not called.
func giveUp(ctx context.Context, c *controlLoop, id *uint64) error {
	ended := make(chan struct{})
	c.loop.Post(func() {
		c.member.Conclude(*id)
		close(ended)
	})
	select {
	case <-ended:
		return ctx.Err()
	case <-c.driver.Stop:
		return c.driver.ErrClosed()
	}
}
