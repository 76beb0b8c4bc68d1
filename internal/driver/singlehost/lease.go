package singlehost

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/store"
)

// Leases is the store of singletons' leases. Each request fails after the duration within. Each
// method calls done once, on the control loop, after the method has returned.
type Leases interface {
	Acquire(c store.Claim, within time.Duration, done func(store.Held, error))
	// Renew extends a lease. cancel gives up the request.
	Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func())
	Release(h store.Held, within time.Duration, done func(error))
}

const leaseTimeout = 3 * time.Second

// A leaseHolder acquires, renews and releases a singleton's lease, on the control loop.
type leaseHolder struct {
	single   *single
	leases   Leases
	claim    store.Claim
	held     store.Held // the latest lease that was acquired
	holds    bool       // held was acquired, and was neither lost nor released
	at       time.Time  // when tick is due; zero means never
	warned   bool       // a failed renewal was logged since the last successful one
	renewing *renewal   // the running request; nil means none
}

type renewal struct {
	cancel  func()
	release bool // release the lease when the request has ended
}

func newLeaseHolder(s *single, leases Leases, ttl time.Duration) *leaseHolder {
	return &leaseHolder{
		single: s, leases: leases,
		claim: store.Claim{
			Name:   "singleton/" + s.set.cluster + "/" + s.kind,
			Holder: s.set.self.Address.String(), TTL: ttl,
		},
	}
}

func (k *leaseHolder) now() time.Time { return k.single.set.process.Now() }

func (k *leaseHolder) log(l slog.Level, text string, args ...any) {
	k.single.set.process.Log(l, text, append([]any{"lease", k.claim.Name}, args...)...)
}

// end returns when the instance must stop: a tenth of the TTL before the lease ends.
func (k *leaseHolder) end(h store.Held) time.Time { return h.Until.Add(-k.claim.TTL / 10) }

func (k *leaseHolder) acquire() {
	k.leases.Acquire(k.claim, leaseTimeout, func(held store.Held, err error) {
		if err == nil && !k.now().Before(k.end(held)) {
			err = fmt.Errorf("%w: the store took too long (raise the lease's TTL of %v)", store.ErrLost, k.claim.TTL)
		}
		var taken *store.HeldError
		switch {
		case err == nil:
			k.log(slog.LevelInfo, "singleton's lease acquired", "token", held.Token)
			k.hold(held)
		case errors.As(err, &taken):
			k.single.step(singleton.LeaseDenied{RetryAfter: taken.RetryAfter, Reason: err.Error()})
		default:
			k.single.set.process.LogSeldom(slog.LevelWarn, "singleton's lease not acquired", k.claim.Name, "lease", k.claim.Name, "err", err)
			k.single.step(singleton.LeaseDenied{Reason: err.Error() + " (is the lease's store up?)"})
		}
	})
}

func (k *leaseHolder) hold(held store.Held) {
	k.held, k.holds, k.warned, k.renewing = held, true, false, nil
	k.guard()
	k.wake(k.claim.TTL / 3)
	k.single.step(singleton.LeaseAcquired{})
}

// guard allows turns until the instance must stop.
func (k *leaseHolder) guard() { k.single.instance.guard.Renew(k.end(k.held)) }

func (k *leaseHolder) wake(d time.Duration) {
	k.at = k.now().Add(d)
	if end := k.end(k.held); end.Before(k.at) {
		k.at = end
	}
}

// tick renews the lease, or gives it up when the instance must stop.
func (k *leaseHolder) tick(now time.Time) {
	left := k.end(k.held).Sub(now)
	switch {
	case left <= 0:
		k.log(slog.LevelError, "singleton's lease could not be renewed in time")
		k.lose()
	case k.renewing == nil:
		k.renew(min(left, leaseTimeout))
	}
}

func (k *leaseHolder) renew(within time.Duration) {
	r := &renewal{}
	k.renewing, k.at = r, k.end(k.held)
	r.cancel = k.leases.Renew(k.held, within, func(next store.Held, err error) { k.renewed(r, next, err) })
}

func (k *leaseHolder) renewed(r *renewal, next store.Held, err error) {
	current := k.renewing == r
	if current {
		k.renewing = nil
	}
	switch {
	case r.release:
		k.giveBack()
	case !current || !k.holds: // the lease was lost meanwhile
	case err == nil:
		k.held, k.warned = next, false
		k.guard()
		k.wake(k.claim.TTL / 3)
	case errors.Is(err, store.ErrLost):
		k.log(slog.LevelError, "singleton's lease is lost", "err", err)
		k.single.instance.guard.Renew(k.now())
		k.lose()
	default:
		if !k.warned {
			k.log(slog.LevelWarn, "singleton's lease not renewed", "until", k.held.Until.Sub(k.now()).String(), "err", err)
		}
		k.warned = true
		k.wake(k.claim.TTL / 3 / 8)
	}
}

// lose gives up the lease, because turns may not run any more.
func (k *leaseHolder) lose() {
	k.holds, k.at = false, time.Time{}
	if r := k.renewing; r != nil {
		r.cancel()
	}
	k.single.step(singleton.LeaseLost{})
}

// release gives the lease back. If a renewal is running, release cancels the renewal, and the lease
// is given back when that has ended: the store must not get the release first.
func (k *leaseHolder) release() {
	k.holds, k.at = false, time.Time{}
	if r := k.renewing; r != nil {
		r.release = true
		r.cancel()
		return
	}
	k.giveBack()
}

func (k *leaseHolder) giveBack() {
	k.leases.Release(k.held, leaseTimeout, func(err error) {
		if err != nil {
			k.log(slog.LevelWarn, "singleton's lease not released: it ends by itself", "err", err)
		}
		k.single.step(singleton.LeaseReleased{})
	})
}
