package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// Route is this process's route to one shard. It is a Route of package routing, which routeEnv
// connects to this process. Calls of this process wait in it while the shard has no home.
type Route struct {
	routing.Route
	kind  *Kind
	shard uint32
}

func (r *Route) init(k *Kind, shard uint32) {
	r.kind, r.shard = k, shard
	r.Init((*routeEnv)(r), k.name, shard)
	if k.Desc.Singleton {
		r.HoldAtMost(k.Driver.Config.SingletonBuffer)
	}
	if k.Desc.Pool {
		r.OnTaken(func() { k.Pool.stranded(int(shard - k.Shards)) })
	}
}

func (r *Route) local() *HostedShard {
	if t := r.Target(); t != nil && t.Local != nil {
		return t.Local.(*HostedShard)
	}
	return nil
}

func (r *Route) send(e *wire.Envelope) error {
	by := peers.Alone
	if e.ID == 0 { // a tell
		by = peers.Pumped
	}
	return r.sendBy(e, by)
}

func (r *Route) sendBy(e *wire.Envelope, by peers.By) error {
	err := r.Send(e, routing.Carrier{
		Here: func(t *routing.Target) (settled bool, err error) {
			return t.Local.(*HostedShard).enqueue(e, func() bool { return r.Target() == t })
		},
		AppendLocked:  func(s routing.Session) (uint64, error) { return s.(*peers.Session).AppendLocked(e) },
		PublishUnlock: func(s routing.Session) { s.(*peers.Session).PublishUnlock(by) },
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

func (r *Route) dropTells(t time.Time) int {
	return r.Drop(func(o stream.Outgoing) bool {
		at, ok := o.Driver.(time.Time)
		return ok && o.Envelope.ID == 0 && at.Before(t)
	})
}

// moving returns a moving shard's former and next home, and since when calls wait.
func (r *Route) moving() (from, to transport.Address, left time.Time) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Core.State != stream.Stopped {
		return transport.Address{}, transport.Address{}, time.Time{}
	}
	return r.Core.Home, r.Core.Next(), r.LeftLocked()
}

type routeEnv Route

var _ routing.Env = (*routeEnv)(nil)

func (v *routeEnv) Self() transport.Peer { return v.kind.Driver.Local }

func (v *routeEnv) Now() time.Time { return time.Now() }

// Session returns the session with a process. It makes one if there is none.
func (v *routeEnv) Session(a transport.Address) (routing.Session, bool) {
	drv := v.kind.Driver
	p := drv.Sessions.Session(transport.Peer{Address: a}, drv.LaneOf(v.shard))
	return p, p != nil
}

func (v *routeEnv) Known(a transport.Address) (routing.Session, bool) {
	drv := v.kind.Driver
	p := drv.Sessions.Known(a, drv.LaneOf(v.shard))
	return p, p != nil
}

func (v *routeEnv) Local() (routing.Local, bool) {
	if v.kind.Host == nil {
		return nil, false
	}
	return v.kind.Hosted(v.shard), true
}

// Ask requests a home for the kind's shards from the coordinator.
func (v *routeEnv) Ask() { v.kind.Driver.Control.Ask(v.kind.Desc.Name) }

// Waits reports whether a caller still waits for the answer to the call with that number.
func (v *routeEnv) Waits(id uint64) bool { return v.kind.Driver.Pending.Waits(id) }

// Sent records in the pending table where a call was sent.
func (v *routeEnv) Sent(id uint64, to routing.Session, seq uint64) {
	s, _ := to.(calls.Carrier)
	v.kind.Driver.Pending.Sent(id, s, seq)
}

// Admit makes room for a call that must be held. For a singleton it does not bound the number of
// held calls, because the route does.
func (v *routeEnv) Admit(size int, tell bool) error {
	drv := v.kind.Driver
	switch {
	case v.kind.Desc.Singleton:
		drv.Control.Ask(v.kind.Desc.Name) // also if there is no room: the next call need not wait then
		if tell && drv.Config.SingletonBuffer == 0 {
			drv.Counts.Add(callShed)
			return routing.ErrUnbuffered
		}
	case drv.held.Load() >= int64(drv.Config.BufferSize):
		return routing.ErrCalls
	}
	if !drv.Budget.Take(size) {
		return routing.ErrBytes
	}
	drv.held.Add(1)
	return nil
}

// Held asks for a home after a call was held. shed are calls that were dropped to make room; Held
// answers the asks among these calls and counts the tells.
func (v *routeEnv) Held(shed []stream.Outgoing) {
	drv := v.kind.Driver
	drv.Counts.Add(callBuffered)
	for i := range shed {
		drv.Counts.Add(callShed)
		if e := &shed[i].Envelope; e.ID != 0 {
			drv.Pending.Complete(e.ID, calls.Result{Code: calls.Shed})
		} else {
			drv.Undelivered.lose(&drv.Counts, calls.NotExecuted)
		}
	}
	drv.Control.Ask(v.kind.Desc.Name)
}

// Retry pauses before try n of a call, while the shard table and this process disagree about the
// shard's home.
func (v *routeEnv) Retry(n int) error { return v.kind.Driver.pause(n) }

// Expired counts a call whose deadline passed before it was sent.
func (v *routeEnv) Expired() { v.kind.Driver.Counts.Add(callExpired) }

// Unsent answers a call that could not be appended to a session. If the call is a tell, it is
// counted as lost.
func (v *routeEnv) Unsent(e *wire.Envelope, err error) {
	drv, code := v.kind.Driver, calls.Unsent
	if errors.Is(err, stream.ErrTooLarge) {
		code = wire.CodeUnsendable
	}
	if e.ID == 0 || !drv.Pending.Complete(e.ID, calls.Result{Code: code, Text: err.Error()}) {
		drv.Undelivered.lose(&drv.Counts, calls.NotExecuted)
	}
}

// Taken counts calls that the route takes back from a home as held calls. It never refuses a call
// for lack of room, because these calls were accepted before.
func (v *routeEnv) Taken(out []stream.Outgoing) {
	drv := v.kind.Driver
	for i := range out {
		drv.Budget.Force(out[i].Envelope.KeptSize())
	}
	drv.held.Add(int64(len(out)))
}

// Released counts calls that are no longer held.
func (v *routeEnv) Released(out []stream.Outgoing) {
	drv := v.kind.Driver
	for i := range out {
		drv.Budget.Give(out[i].Envelope.KeptSize())
	}
	drv.held.Add(-int64(len(out)))
}

// WaitsFor returns why calls wait in a route without a home.
func (r *Route) WaitsFor(now time.Time) error {
	drv, name := r.kind.Driver, r.kind.Desc.Name
	if d := drv.Reach.Away(now, transport.Control, transport.Channel(drv.LaneOf(r.shard))); d > 0 {
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
		return fmt.Errorf("%w: shard %d of %s leaves %s, and its next home is not known yet%s", ErrMoving, r.shard, name, from.Name, since)
	default:
		return fmt.Errorf("%w: shard %d of %s moves from %s to %s%s", ErrMoving, r.shard, name, from.Name, to.Name, since)
	}
	why, hosted := drv.Control.Waits(name, now)
	switch {
	case !hosted:
		return fmt.Errorf("%w: %s", ErrNoHost, why)
	case why != "":
		return fmt.Errorf("%w: %s", errNoHome, why)
	}
	return errNoHome
}

// NoInstance returns the error of a call that found no instance of its singleton.
func (r *Route) NoInstance(now time.Time) error {
	drv := r.kind.Driver
	if d := drv.Reach.Away(now, transport.Control, transport.Channel(drv.LaneOf(r.shard))); d > 0 {
		return fmt.Errorf("%w: NATS has not been reached for %v", ErrNoInstance, d.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %s", ErrNoInstance, drv.Control.Why(r.kind.Desc.Name, now))
}

func (r *Route) errHolding() error {
	drv, kind := r.kind.Driver, r.kind.Desc.Name
	return fmt.Errorf("%w: %d calls wait at %s already: shard %d of %s: %v (retry later, or raise Config.Limits.BufferSize)",
		ErrOverloaded, drv.Config.BufferSize, drv.Local.Name, r.shard, kind, r.WaitsFor(time.Now()))
}

func (r *Route) errHoldingBytes(size int) error {
	drv := r.kind.Driver
	return fmt.Errorf("%w: all calls that wait at %s may hold at most %d bytes, and there is no room for %d more: shard %d of %s has no home yet (retry later, send less at once, or raise Config.Limits.BufferBytes)",
		ErrOverloaded, drv.Local.Name, drv.Config.BufferBytes, size, r.shard, r.kind.Desc.Name)
}

func (r *Route) errUnbuffered() error {
	return fmt.Errorf("%w: Config.Limits.SingletonBuffer lets no call wait at %s, and no instance of %s is known yet (retry later)",
		ErrBufferFull, r.kind.Driver.Local.Name, r.kind.Desc.Name)
}
