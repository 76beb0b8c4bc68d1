package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
)

// leaseRetry is the time between two tries while the store does not answer.
const leaseRetry = 500 * time.Millisecond

// takeLease tries to take the lease that decides a split, for as long as the
// membership allows, and answers it. The loop goes on meanwhile.
func (c *control) takeLease(r membership.LeaseRequest) {
	c.plane.wg.Go(func() {
		answer := c.tryLease(r)
		c.loop.Post(func() { c.stepMembers(answer) })
	})
}

func (c *control) tryLease(r membership.LeaseRequest) membership.LeaseAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), r.Within)
	defer cancel()
	c.plane.wg.Go(func() { // a store that does not answer must not hold up the node's end
		select {
		case <-c.plane.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	claim := store.Claim{
		Name:   fmt.Sprintf("%s/downing/%s=%016x", c.node.cfg.Cluster, r.Founder.Name, r.Founder.Incarnation),
		Holder: c.self.String(), TTL: r.TTL, Over: r.Over,
	}
	for {
		held, err := c.node.cfg.Membership.Downing.Lease.Acquire(ctx, claim)
		switch {
		case err == nil:
			c.node.log.Warn("took the lease that decides a split", "lease", claim.Name, "token", held.Token)
			return membership.LeaseAnswer{Seq: r.Seq, Token: held.Token}
		case errors.Is(err, store.ErrHeld):
			return membership.LeaseAnswer{Seq: r.Seq, Held: true, Reason: err.Error()}
		}
		c.node.log.Warn("the lease that decides a split was not taken", "lease", claim.Name, "err", err)
		select {
		case <-ctx.Done():
			return membership.LeaseAnswer{Seq: r.Seq, Reason: err.Error()}
		case <-time.After(leaseRetry):
		}
	}
}
