package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/store"
)

// leaseRequests implements the interface of package singlehost for the store of leases: each
// request runs on a goroutine of its own.
type leaseRequests struct {
	store  store.Lease
	driver *driver
	post   func(func()) // has a function called on the control loop
}

var _ singlehost.Leases = leaseRequests{}

// Acquire asks for a lease.
func (q leaseRequests) Acquire(c store.Claim, within time.Duration, done func(store.Held, error)) {
	q.request(within, func(ctx context.Context) func() {
		h, err := q.store.Acquire(ctx, c)
		return func() { done(h, err) }
	})
}

// Renew asks for a prolonged lease.
func (q leaseRequests) Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func()) {
	return q.request(within, func(ctx context.Context) func() {
		next, err := q.store.Renew(ctx, h)
		return func() { done(next, err) }
	})
}

// Release gives a lease back.
func (q leaseRequests) Release(h store.Held, within time.Duration, done func(error)) {
	q.request(within, func(ctx context.Context) func() {
		err := q.store.Release(ctx, h)
		return func() { done(err) }
	})
}

// request runs a request, and has its answer taken on the control loop.
func (q leaseRequests) request(within time.Duration, ask func(context.Context) (answer func())) (cancel func()) {
	ctx, cancel := context.WithTimeout(q.driver.ctx, within)
	q.driver.group.Go(func() {
		defer cancel()
		q.post(ask(ctx))
	})
	return cancel
}
