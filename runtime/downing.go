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

// takeSplitLease tries to take the lease that decides a split, for as long as the
// membership allows.
func takeSplitLease(n *Node, r membership.LeaseRequest) membership.LeaseAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), r.Within)
	defer cancel()
	n.plane.wg.Go(func() { // a store that does not answer must not hold up the node's end
		select {
		case <-n.plane.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	claim := store.Claim{
		Name:   fmt.Sprintf("%s/downing/%s=%016x", n.cfg.Cluster, r.Founder.Name, r.Founder.Incarnation),
		Holder: n.plane.self.Address.String(), TTL: r.TTL, Over: r.Over,
	}
	for {
		held, err := n.cfg.Membership.Downing.Lease.Acquire(ctx, claim)
		switch {
		case err == nil:
			n.log.Warn("took the lease that decides a split", "lease", claim.Name, "token", held.Token)
			return membership.LeaseAnswer{Seq: r.Seq, Token: held.Token}
		case errors.Is(err, store.ErrHeld):
			return membership.LeaseAnswer{Seq: r.Seq, Held: true, Reason: err.Error()}
		}
		n.log.Warn("the lease that decides a split was not taken", "lease", claim.Name, "err", err)
		select {
		case <-ctx.Done():
			return membership.LeaseAnswer{Seq: r.Seq, Reason: err.Error()}
		case <-time.After(leaseRetry):
		}
	}
}
