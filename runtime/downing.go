package shard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
)

// leaseRetry is the time between two tries while the store does not answer.
const leaseRetry = 500 * time.Millisecond

// takeSplitLease tries to take the lease that decides a split, until ctx ends.
func takeSplitLease(ctx context.Context, leases store.Lease, claim store.Claim, log *slog.Logger) membership.LeaseAnswer {
	for {
		held, err := leases.Acquire(ctx, claim)
		switch {
		case err == nil:
			log.Warn("took the lease that decides a split", "lease", claim.Name, "token", held.Token)
			return membership.LeaseAnswer{Token: held.Token}
		case errors.Is(err, store.ErrHeld):
			return membership.LeaseAnswer{Held: true, Reason: err.Error()}
		}
		log.Warn("the lease that decides a split was not taken", "lease", claim.Name, "err", err)
		select {
		case <-ctx.Done():
			return membership.LeaseAnswer{Reason: err.Error()}
		case <-time.After(leaseRetry):
		}
	}
}
