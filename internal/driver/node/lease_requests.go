package node

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/store"
)

// LeaseRequests implements the interface of package singlehost for the store of leases: each
// request runs on a goroutine of its own.
type LeaseRequests struct {
	Store  store.Lease
	Driver *Driver
	Post   func(func()) // has a function called on the control loop
}

var _ singlehost.Leases = LeaseRequests{}

// Acquire asks for a lease.
func (q LeaseRequests) Acquire(c store.Claim, within time.Duration, done func(store.Held, error)) {
	q.request(within, func(ctx context.Context) func() {
		h, err := q.Store.Acquire(ctx, c)
		return func() { done(h, err) }
	})
}

// Renew asks for a prolonged lease.
func (q LeaseRequests) Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func()) {
	return q.request(within, func(ctx context.Context) func() {
		next, err := q.Store.Renew(ctx, h)
		return func() { done(next, err) }
	})
}

// Release gives a lease back.
func (q LeaseRequests) Release(h store.Held, within time.Duration, done func(error)) {
	q.request(within, func(ctx context.Context) func() {
		err := q.Store.Release(ctx, h)
		return func() { done(err) }
	})
}

// request runs a request, and has its answer taken on the control loop.
func (q LeaseRequests) request(within time.Duration, ask func(context.Context) (answer func())) (cancel func()) {
	ctx, cancel := context.WithTimeout(q.Driver.Context, within)
	q.Driver.Group.Go(func() {
		defer cancel()
		q.Post(ask(ctx))
	})
	return cancel
}
