package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/internal/control"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// route is the route of one shard: the route of package routing, which routeEnv connects
// to this process, and the calls of this process that wait in it.
type route struct {
	routing.Route
	kind  *kind
	shard uint32
}

func (r *route) init(k *kind, shard uint32) {
	r.kind, r.shard = k, shard
	r.Init((*routeEnv)(r), k.name, shard)
	if k.desc.Singleton {
		r.HoldAtMost(k.driver.cfg.SingletonBuffer)
	}
}

// local returns the shard at this process if calls go directly to it, and nil
// otherwise.
func (r *route) local() *hostedShard {
	if t := r.Target(); t != nil && t.Local != nil {
		return t.Local.(*hostedShard)
	}
	return nil
}

// send sends an envelope of an ask or a tell, or holds it. An error means that it will
// never be sent.
func (r *route) send(e *wire.Envelope) error {
	err := r.Send(e, routing.Carrier{
		Here: func(t *routing.Target) (settled bool, err error) {
			return t.Local.(*hostedShard).enqueue(e, func() bool { return r.Target() == t })
		},
		AppendLocked: func(s routing.Session) (uint64, error) { return s.(*peers.Session).AppendLocked(e) },
		PublishUnlock: func(s routing.Session) {
			by := peers.Alone
			if e.ID == 0 { // a tell
				by = peers.Pumped
			}
			s.(*peers.Session).PublishUnlock(by)
		},
	})
	switch err {
	case routing.ErrCalls:
		return r.errHolding()
	case routing.ErrBytes:
		return r.errHoldingBytes(e.KeptSize())
	case routing.ErrUnbuffered:
		return r.errUnbuffered()
	}
	return err
}

// holdsTells reports whether tells wait here.
func (r *route) holdsTells() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Holds(func(o stream.Outgoing) bool { return o.Envelope.ID == 0 })
}

// dropTells drops held tells that have waited since before t and counts them.
func (r *route) dropTells(t time.Time) int {
	return r.Drop(func(o stream.Outgoing) bool {
		at, ok := o.Driver.(time.Time)
		return ok && o.Envelope.ID == 0 && at.Before(t)
	})
}

// moving returns the home that the shard leaves while calls that were sent there are
// unacknowledged, the next home if it is known, and the time since when calls wait for
// it.
func (r *route) moving() (from, to transport.Address, left time.Time) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Core.State != stream.Stopped {
		return transport.Address{}, transport.Address{}, time.Time{}
	}
	return r.Core.Home, r.Core.Next(), r.LeftLocked()
}

// routeEnv implements the interface of package routing for a route of this process.
type routeEnv route

var _ routing.Env = (*routeEnv)(nil)

// Self returns this process.
func (v *routeEnv) Self() transport.Peer { return v.kind.driver.self }

// Now returns the time.
func (v *routeEnv) Now() time.Time { return time.Now() }

// Session is the session with a process, which it makes if there is none.
func (v *routeEnv) Session(a transport.Address) (routing.Session, bool) {
	drv := v.kind.driver
	p := drv.peers.Session(transport.Peer{Address: a}, drv.laneOf(v.shard))
	return p, p != nil
}

// Known is the session with a process if there is one already.
func (v *routeEnv) Known(a transport.Address) (routing.Session, bool) {
	drv := v.kind.driver
	p := drv.peers.Known(a, drv.laneOf(v.shard))
	return p, p != nil
}

// Local is the shard at this process.
func (v *routeEnv) Local() (routing.Local, bool) {
	if v.kind.host == nil {
		return nil, false
	}
	return v.kind.hosted(v.shard), true
}

// Ask requests a home from the coordinator.
func (v *routeEnv) Ask() { v.kind.driver.ctl.ask(v.kind.desc.Name) }

// Waits reports whether a caller waits for the answer.
func (v *routeEnv) Waits(id uint64) bool { return v.kind.driver.pending.Waits(id) }

// Sent records in the pending table where a call was sent.
func (v *routeEnv) Sent(id uint64, to routing.Session, seq uint64) {
	s, _ := to.(calls.Carrier)
	v.kind.driver.pending.Sent(id, s, seq)
}

// Admit makes room for a call that is to be held. A singleton's route bounds the number of its
// calls itself.
func (v *routeEnv) Admit(size int, tell bool) error {
	drv := v.kind.driver
	switch {
	case v.kind.desc.Singleton:
		drv.ctl.ask(v.kind.desc.Name) // also if there is no room: the next call need not wait then
		if tell && drv.cfg.SingletonBuffer == 0 {
			drv.counters.add(callShed)
			return routing.ErrUnbuffered
		}
	case drv.held.Load() >= int64(drv.cfg.BufferSize):
		return routing.ErrCalls
	}
	if !drv.budget.Take(size) {
		return routing.ErrBytes
	}
	drv.held.Add(1)
	return nil
}

// Held asks for a home, and answers or counts the calls that were dropped for younger ones.
func (v *routeEnv) Held(shed []stream.Outgoing) {
	drv := v.kind.driver
	drv.counters.add(callBuffered)
	for i := range shed {
		drv.counters.add(callShed)
		if e := &shed[i].Envelope; e.ID != 0 {
			drv.pending.Complete(e.ID, calls.Result{Code: calls.Shed})
		} else {
			drv.lost.lose(&drv.counters, calls.NotExecuted)
		}
	}
	drv.ctl.ask(v.kind.desc.Name)
}

// Retry delays a call while the table and this process do not agree about its home.
func (v *routeEnv) Retry(n int) error { return v.kind.driver.pause(n) }

// Expired counts a call that is not sent.
func (v *routeEnv) Expired() { v.kind.driver.counters.add(callExpired) }

// Unsent answers a call that could not be appended.
func (v *routeEnv) Unsent(e *wire.Envelope, err error) {
	drv, code := v.kind.driver, calls.Unsent
	if errors.Is(err, stream.ErrTooLarge) {
		code = wire.CodeUnsendable
	}
	if e.ID == 0 || !drv.pending.Complete(e.ID, calls.Result{Code: code, Text: err.Error()}) {
		drv.lost.lose(&drv.counters, calls.NotExecuted)
	}
}

// Taken counts calls that are held without regard to the bounds, because their senders were
// told that they were accepted.
func (v *routeEnv) Taken(out []stream.Outgoing) {
	drv := v.kind.driver
	for i := range out {
		drv.budget.Force(out[i].Envelope.KeptSize())
	}
	drv.held.Add(int64(len(out)))
}

// Released counts calls that are no longer held.
func (v *routeEnv) Released(out []stream.Outgoing) {
	drv := v.kind.driver
	for i := range out {
		drv.budget.Give(out[i].Envelope.KeptSize())
	}
	drv.held.Add(-int64(len(out)))
}

// waitsFor returns the reason why calls of a route without a home wait.
func (r *route) waitsFor(now time.Time) error {
	drv, name := r.kind.driver, r.kind.desc.Name
	if d := drv.reach.away(now, transport.Control, transport.Channel(drv.laneOf(r.shard))); d > 0 {
		return fmt.Errorf("%w: NATS has not been reached for %v", errNoHome, d.Round(time.Millisecond))
	}
	from, to, left := r.moving()
	since := ""
	if !left.IsZero() {
		since = control.ForSome(now.Sub(left))
	}
	switch {
	case from.IsZero():
	case to.IsZero():
		return fmt.Errorf("%w: shard %d of %s leaves %s, and its next home is not known yet%s", errMoving, r.shard, name, from.Name, since)
	default:
		return fmt.Errorf("%w: shard %d of %s moves from %s to %s%s", errMoving, r.shard, name, from.Name, to.Name, since)
	}
	why, hosted := drv.ctl.waits(name, now)
	switch {
	case !hosted:
		return fmt.Errorf("%w: %s", ErrNoHost, why)
	case why != "":
		return fmt.Errorf("%w: %s", errNoHome, why)
	}
	return errNoHome
}

// noInstance is the error of a call that found no instance of its singleton.
func (r *route) noInstance(now time.Time) error {
	drv := r.kind.driver
	if d := drv.reach.away(now, transport.Control, transport.Channel(drv.laneOf(r.shard))); d > 0 {
		return fmt.Errorf("%w: NATS has not been reached for %v", ErrNoInstance, d.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %s", ErrNoInstance, drv.ctl.why(r.kind.desc.Name, now))
}

// errHolding is the error of a call for which there is no room to wait for a home.
func (r *route) errHolding() error {
	drv, kind := r.kind.driver, r.kind.desc.Name
	return fmt.Errorf("%w: %d calls wait at %s already: shard %d of %s: %v (retry later, or raise Config.BufferSize)",
		ErrOverloaded, drv.cfg.BufferSize, drv.self.Name, r.shard, kind, r.waitsFor(time.Now()))
}

// errHoldingBytes is the error of a call for which the bound of bytes has no room to
// wait for a home.
func (r *route) errHoldingBytes(size int) error {
	drv := r.kind.driver
	return fmt.Errorf("%w: all calls that wait at %s may hold %d bytes, and %d more are too many: shard %d of %s has no home yet (retry later, send less at once, or raise Config.BufferBytes)",
		ErrOverloaded, drv.self.Name, drv.cfg.BufferBytes, size, r.shard, r.kind.desc.Name)
}

// errUnbuffered is the error of a tell to a singleton without an instance when no tell
// may wait.
func (r *route) errUnbuffered() error {
	return fmt.Errorf("%w: Config.SingletonBuffer lets no call wait at %s, and no instance of %s is known yet (retry later)",
		ErrBufferFull, r.kind.driver.self.Name, r.kind.desc.Name)
}
