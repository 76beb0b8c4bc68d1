package shard

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// inquiries are this node's questions to other members that wait for answers.
// They belong to the control loop.
type inquiries struct {
	next uint64
	open map[uint64]func(transport.Address, coordinator.Message)
}

// errNotJoined: nobody can be asked before Start has returned.
var errNotJoined = errors.New("the node has not joined (call Start first)")

// inquire asks now and every resendEvery, until ask or got, on the control loop,
// find that enough was heard; or until ctx ends, whose error it returns.
func (c *control) inquire(ctx context.Context, ask func(id uint64) bool, got func(transport.Address, coordinator.Message) bool) error {
	if c.view.Load() == nil {
		return errNotJoined
	}
	var id uint64 // the loop's
	done := make(chan struct{})
	conclude := func(enough bool) {
		if enough {
			delete(c.inquiries.open, id)
			close(done)
		}
	}
	c.loop.Post(func() {
		c.inquiries.next++
		id = c.inquiries.next
		c.inquiries.open[id] = func(from transport.Address, m coordinator.Message) { conclude(got(from, m)) }
		conclude(ask(id))
	})
	again := time.NewTicker(resendEvery)
	defer again.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-again.C:
			c.loop.Post(func() {
				if c.inquiries.open[id] != nil {
					conclude(ask(id))
				}
			})
		case <-c.plane.stop:
			return c.plane.errClosed()
		case <-ctx.Done():
			return c.giveUp(ctx, &id)
		}
	}
}

// giveUp ends an inquiry; when it returns, got is not called any more.
func (c *control) giveUp(ctx context.Context, id *uint64) error {
	ended := make(chan struct{})
	c.loop.Post(func() {
		delete(c.inquiries.open, *id)
		close(ended)
	})
	select {
	case <-ended:
		return ctx.Err()
	case <-c.plane.stop:
		return c.plane.errClosed()
	}
}

// answered brings an answer to its inquiry. Late ones are dropped.
func (q *inquiries) answered(id uint64, from transport.Address, m coordinator.Message) {
	if got := q.open[id]; got != nil {
		got(from, m)
	}
}
