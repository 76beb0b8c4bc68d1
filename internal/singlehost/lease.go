package singlehost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/store"
)

// leaseTimeout bounds one request to the store that keeps a singleton's lease.
const leaseTimeout = 3 * time.Second

// A leaseHolder acquires, renews and releases the lease of a singleton. It posts results
// to the control loop; the requests run beside it.
type leaseHolder struct {
	single *single
	leases store.Lease
	claim  store.Claim
	drop   context.CancelFunc // ends the renewing; nil while nothing is held
	kept   chan store.Held    // the latest holding, when renewing has ended
}

func newLeaseHolder(s *single, leases store.Lease, ttl time.Duration) *leaseHolder {
	return &leaseHolder{
		single: s, leases: leases,
		claim: store.Claim{
			Name:   "singleton/" + s.set.cluster + "/" + s.kind,
			Holder: s.set.self.Address.String(), TTL: ttl,
		},
	}
}

func (k *leaseHolder) home() Home { return k.single.instance.home }

func (k *leaseHolder) post(in singleton.Input) { k.single.instance.post(in) }

// acquire asks for the lease once.
func (k *leaseHolder) acquire() {
	home := k.home()
	home.Go(func() {
		ctx, cancel := context.WithTimeout(home.Context(), leaseTimeout)
		defer cancel()
		held, err := k.leases.Acquire(ctx, k.claim)
		if err == nil && time.Until(held.Until) <= k.spare() {
			err = fmt.Errorf("%w: the store took too long (raise the lease's TTL of %v)", store.ErrLost, k.claim.TTL)
		}
		var taken *store.HeldError
		switch {
		case err == nil:
			home.Log().Info("singleton's lease acquired", "lease", k.claim.Name, "token", held.Token)
			k.single.set.process.Post(func() { k.hold(held) })
		case errors.As(err, &taken):
			k.post(singleton.LeaseDenied{RetryAfter: taken.RetryAfter, Reason: err.Error()})
		default:
			home.WarnSeldom("singleton's lease not acquired", k.claim.Name, "lease", k.claim.Name, "err", err)
			k.post(singleton.LeaseDenied{Reason: err.Error() + " (is the lease's store up?)"})
		}
	})
}

// hold renews the acquired lease until it is dropped or lost.
func (k *leaseHolder) hold(held store.Held) {
	ctx, drop := context.WithCancel(k.home().Context())
	k.drop, k.kept = drop, make(chan store.Held, 1)
	kept := k.kept
	k.guard(held)
	k.home().Go(func() { kept <- k.renew(ctx, held) })
	k.single.step(singleton.LeaseAcquired{})
}

// spare is how long before the lease's end the instance has to stop.
func (k *leaseHolder) spare() time.Duration { return k.claim.TTL / 10 }

// guard lets turns run until shortly before the lease ends.
func (k *leaseHolder) guard(h store.Held) { k.single.instance.guard.Renew(h.Until.Add(-k.spare())) }

// renew prolongs the lease, and reports when it is over: at once when another has it, else in
// time for the instance to stop before it ends.
func (k *leaseHolder) renew(ctx context.Context, held store.Held) store.Held {
	log := k.home().Log()
	every, warned := k.claim.TTL/3, false
	for wait := every; ; {
		over := time.Until(held.Until) - k.spare()
		select {
		case <-ctx.Done():
			return held
		case <-time.After(max(0, min(wait, over))):
		}
		over = time.Until(held.Until) - k.spare()
		if over <= 0 {
			log.Error("singleton's lease could not be renewed in time", "lease", k.claim.Name)
			k.post(singleton.LeaseLost{})
			return held
		}
		try, cancel := context.WithTimeout(ctx, min(over, leaseTimeout))
		next, err := k.leases.Renew(try, held)
		cancel()
		switch {
		case err == nil:
			held, wait, warned = next, every, false
			k.guard(held)
		case errors.Is(err, store.ErrLost):
			log.Error("singleton's lease is lost", "lease", k.claim.Name, "err", err)
			k.single.instance.guard.Renew(time.Now())
			k.post(singleton.LeaseLost{})
			return held
		case ctx.Err() != nil:
			return held
		default:
			if !warned {
				log.Warn("singleton's lease not renewed", "lease", k.claim.Name, "until", time.Until(held.Until).String(), "err", err)
			}
			warned, wait = true, every/8
		}
	}
}

// release gives the lease back; the instance has stopped.
func (k *leaseHolder) release() {
	home, kept := k.home(), k.kept
	k.drop()
	home.Go(func() {
		ctx, cancel := context.WithTimeout(home.Context(), leaseTimeout)
		defer cancel()
		if err := k.leases.Release(ctx, <-kept); err != nil {
			home.Log().Warn("singleton's lease not released: it ends by itself", "lease", k.claim.Name, "err", err)
		}
		k.post(singleton.LeaseReleased{})
	})
}
