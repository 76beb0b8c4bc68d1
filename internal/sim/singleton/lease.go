package singleton

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/store"
)

// leaseTTL is how long the lease lasts.
const leaseTTL = 4 * time.Second

// leases is the store's one lease, with its holder and its end. The holder's own clock is
// the same here; sim.World has clocks that drift, and package store describes how a store
// must allow for them.
type leases struct {
	holder string
	token  uint64
	ends   time.Duration
}

var errLost = errors.New("simulated: the store does not answer")

// acquire gives the lease, unless another holder has it now.
func (s *leases) acquire(c store.Claim, now time.Duration) (store.Held, error) {
	if s.holder != "" && s.holder != c.Holder && now < s.ends {
		return store.Held{}, &store.HeldError{Holder: s.holder, Token: s.token, RetryAfter: s.ends - now}
	}
	*s = leases{c.Holder, s.token + 1, now + c.TTL}
	return store.Held{Claim: c, Token: s.token}, nil
}

// renew prolongs a holding, if it has not ended by now.
func (s *leases) renew(h store.Held, now time.Duration) (store.Held, error) {
	if s.holder != h.Holder || s.token != h.Token || now >= s.ends {
		return store.Held{}, store.ErrLost
	}
	s.ends = now + h.TTL
	return h, nil
}

// release ends a holding.
func (s *leases) release(h store.Held) {
	if s.holder == h.Holder && s.token == h.Token {
		s.holder = ""
	}
}

// requests brings a process's requests to the store, and the answers back, both after a
// while, if neither gets lost.
type requests actor

var _ singlehost.Leases = (*requests)(nil)

// Acquire asks for the lease.
func (q *requests) Acquire(c store.Claim, within time.Duration, done func(store.Held, error)) {
	q.ask(within, func(now time.Duration) (store.Held, error) { return q.run.store.acquire(c, now) }, func(h store.Held, err error) {
		if err == nil {
			q.run.counts.Leases++
		}
		done(h, err)
	})
}

// Renew asks for a prolonged lease.
func (q *requests) Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func()) {
	return q.ask(within, func(now time.Duration) (store.Held, error) { return q.run.store.renew(h, now) }, func(next store.Held, err error) {
		if errors.Is(err, store.ErrLost) {
			q.run.counts.LeasesLost++
		}
		done(next, err)
	})
}

// Release gives the lease back.
func (q *requests) Release(h store.Held, within time.Duration, done func(error)) {
	q.ask(within, func(time.Duration) (store.Held, error) {
		q.run.store.release(h)
		return h, nil
	}, func(_ store.Held, err error) { done(err) })
}

// ask makes one request. The time of a holding counts from when its request was sent.
func (q *requests) ask(within time.Duration, request func(time.Duration) (store.Held, error), answer func(store.Held, error)) (cancel func()) {
	a, r := (*actor)(q), q.run
	sent, done := a.now(), false
	finish := func(after time.Duration, h store.Held, err error) {
		h.Until = sent.Add(leaseTTL)
		a.after(after, func() {
			if !done {
				done = true
				a.loop(func() { answer(h, err) })
			}
		})
	}
	lose := func() bool { return a.storeless || !r.calm && r.random.Float64() < r.plan.storeLoss }
	finish(min(within, r.milliseconds(300, 1000)), store.Held{}, errLost)
	if !lose() {
		r.world.After(r.delay(), func() {
			h, err := request(r.world.Now())
			if !lose() {
				finish(r.delay(), h, err)
			}
		})
	}
	return func() { finish(0, store.Held{}, errLost) }
}
