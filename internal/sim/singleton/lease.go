package singleton

import (
	"time"

	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/transport"
)

// leases is the store's one lease: a holder, and when it ends. The holder's own
// clock is the same here; sim.World has clocks that drift, and package store
// describes how a store must allow for them.
type leases struct {
	holder transport.Address
	ends   time.Duration
}

// leaseTTL is how long the lease lasts, and leaseSpare how long before its end
// the instance has to stop.
const (
	leaseTTL   = 4 * time.Second
	leaseSpare = leaseTTL / 10
)

// A leaseHold is the lease as one node has it.
type leaseHold struct {
	until   time.Duration // the instance may run before; 0: not held
	held    bool
	renewAt time.Duration
}

// take gives the lease to a at a time, unless another one has it.
func (s *leases) take(a transport.Address, now time.Duration) bool {
	if s.holder != a && now < s.ends {
		return false
	}
	*s = leases{a, now + leaseTTL}
	return true
}

// prolong prolongs the lease of a at a time, if a has it.
func (s *leases) prolong(a transport.Address, now time.Duration) bool {
	if s.holder != a || now >= s.ends {
		return false
	}
	s.ends = now + leaseTTL
	return true
}

func (l *leaseHold) acquire(a *actor) {
	a.ask(func() bool { return a.run.store.take(a.node.Address, a.run.world.Now()) }, func(ok bool, sent time.Duration) {
		if !ok || a.run.world.Now() >= sent+leaseTTL-leaseSpare {
			a.step(singleton.LeaseDenied{Reason: "held"})
			return
		}
		l.held, l.until, l.renewAt = true, sent+leaseTTL-leaseSpare, a.run.world.Now()+leaseTTL/3
		a.run.counts.Leases++
		a.step(singleton.LeaseAcquired{})
	}, func() { a.step(singleton.LeaseDenied{Reason: "no answer"}) })
}

// tick renews held leases, and reports when one is over.
func (l *leaseHold) tick(a *actor) {
	now := a.run.world.Now()
	if !l.held {
		return
	}
	if now >= l.until {
		l.lose(a)
		return
	}
	if now < l.renewAt {
		return
	}
	l.renewAt = now + leaseTTL/8
	a.ask(func() bool { return a.run.store.prolong(a.node.Address, a.run.world.Now()) }, func(ok bool, sent time.Duration) {
		switch {
		case !l.held:
		case !ok:
			l.lose(a)
		default:
			l.until, l.renewAt = max(l.until, sent+leaseTTL-leaseSpare), a.run.world.Now()+leaseTTL/3
		}
	}, func() {})
}

func (l *leaseHold) lose(a *actor) {
	l.held, l.until = false, min(l.until, a.run.world.Now())
	a.run.counts.LeasesLost++
	a.step(singleton.LeaseLost{})
}

func (l *leaseHold) release(a *actor) {
	l.held, l.until = false, 0
	end := func() { a.step(singleton.LeaseReleased{}) }
	a.ask(func() bool {
		if a.run.store.holder == a.node.Address {
			a.run.store = leases{}
		}
		return true
	}, func(bool, time.Duration) { end() }, end)
}
