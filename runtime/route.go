package shard

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/calling"
	"github.com/shardgen/shardgen/internal/control"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// kind is one entity type at this process: its routes, and its host if this process
// hosts it.
type kind struct {
	driver *driver
	desc   codegen.Kind
	name   []byte
	shards uint32
	shift  uint8                  // of a hash, so that the bits remain that name its shard
	err    error                  // why calls of it cannot work; nil if they can
	errors func() []codegen.Error // the declared errors
	routes []route
	refs   atomic.Pointer[codegen.KeptRefs] // nil until a reference is made
	// Set before Start. host is nil if the kind is only called, and declared is nil
	// if HostX was not called.
	host     *host
	declared *hostSettings
	encodes  bool // calls are encoded at this process too, because they commit or are intercepted
}

func newKind(drv *driver, desc codegen.Kind) *kind {
	k := &kind{driver: drv, desc: desc, name: []byte(desc.Name), err: checkKind(&desc), encodes: desc.Durable}
	k.errors = sync.OnceValue(func() []codegen.Error { return codegen.Errors(desc.Errors) })
	k.shards = uint32(desc.Shards)
	if k.err != nil {
		return k
	}
	k.routes, k.shift = make([]route, k.shards), uint8(64-bits.TrailingZeros32(k.shards))
	for i := range k.routes {
		k.routes[i].init(k, k.shards+uint32(i))
	}
	return k
}

// route returns the route of a shard number, or nil if the kind has no such shard.
func (k *kind) route(shard uint32) *route {
	if shard < k.shards || shard-k.shards >= uint32(len(k.routes)) {
		return nil
	}
	return &k.routes[shard-k.shards]
}

// hosted returns the shard with that number at this process, or nil if the kind is not hosted here or
// has no such shard.
func (k *kind) hosted(shard uint32) *hostedShard {
	if k.host == nil || shard < k.shards || shard-k.shards >= uint32(len(k.host.shards)) {
		return nil
	}
	return &k.host.shards[shard-k.shards]
}

// shardOf returns the number of an entity's shard, or why the id is bad.
func (k *kind) shardOf(id string) (uint32, error) {
	hash, err := invoker{k}.Hash(id)
	return placement.ShardOf(hash, k.shards), err
}

// routeOf returns the route of an entity, by the hash of its reference: that of the shard that
// placement.ShardOf finds.
func (k *kind) routeOf(hash uint64) *route { return &k.routes[hash>>k.shift] }

// adopt follows the table from an older one, if it has the kind with as many shards.
func (k *kind) adopt(old, t *placement.Table) {
	part := t.Kind(k.desc.Name)
	if part == nil || k.err != nil {
		return
	}
	if part.Shards() != k.shards {
		return // why reports this when a call runs out of time
	}
	k.driver.data.Follow(old, t, k.desc.Name)
}

// Found sets the home of a singleton: in its route, and in its shard at this process unless hosts is
// set. This process then still has a part of the instance, and knows better where the shard is.
func (k *kind) Found(node transport.Address, epoch placement.Epoch, hosts bool) {
	if k.host != nil && !hosts {
		k.host.shards[0].Place(node, epoch, 0)
	}
	k.routes[0].Found(node, epoch)
}

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
		r.HoldAtMost(*k.driver.cfg.SingletonBuffer)
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
	return r.Core.Holds(func(o call.Outgoing) bool { return o.Envelope.ID == 0 })
}

// dropTells drops held tells that have waited since before t and counts them.
func (r *route) dropTells(t time.Time) int {
	return r.Drop(func(o call.Outgoing) bool {
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
	if r.Core.State != call.Stopped {
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
	s, _ := to.(pending.Session)
	v.kind.driver.pending.Sent(id, s, seq)
}

// Admit makes room for a call that is to be held. A singleton's route bounds the number of its
// calls itself.
func (v *routeEnv) Admit(size int, tell bool) error {
	drv := v.kind.driver
	switch {
	case v.kind.desc.Singleton:
		drv.ctl.ask(v.kind.desc.Name) // also if there is no room: the next call need not wait then
		if tell && *drv.cfg.SingletonBuffer == 0 {
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
func (v *routeEnv) Held(shed []call.Outgoing) {
	drv := v.kind.driver
	drv.counters.add(callBuffered)
	for i := range shed {
		drv.counters.add(callShed)
		if e := &shed[i].Envelope; e.ID != 0 {
			drv.pending.Complete(e.ID, pending.Result{Code: calling.Shed})
		} else {
			drv.lost.lose(&drv.counters, NotExecuted)
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
	drv, code := v.kind.driver, calling.Unsent
	if errors.Is(err, call.ErrTooLarge) {
		code = wire.CodeUnsendable
	}
	if e.ID == 0 || !drv.pending.Complete(e.ID, pending.Result{Code: code, Text: err.Error()}) {
		drv.lost.lose(&drv.counters, NotExecuted)
	}
}

// Taken counts calls that are held without regard to the bounds, because their senders were
// told that they were accepted.
func (v *routeEnv) Taken(out []call.Outgoing) {
	drv := v.kind.driver
	for i := range out {
		drv.budget.Force(out[i].Envelope.KeptSize())
	}
	drv.held.Add(int64(len(out)))
}

// Released counts calls that are no longer held.
func (v *routeEnv) Released(out []call.Outgoing) {
	drv := v.kind.driver
	for i := range out {
		drv.budget.Give(out[i].Envelope.KeptSize())
	}
	drv.held.Add(-int64(len(out)))
}

// ownHash calls the user's shard function twice, because two different results for one
// id would give one entity two homes.
func (k *kind) ownHash(id string) (hash uint64, err error) {
	name := k.desc.HashName
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the shard function %s of %s panicked for id %s: %v (it must accept every id)", name, k.desc.Name, clip(id), r)
		}
	}()
	for i := range 2 {
		h, err := k.desc.Hash(id)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the shard function %s of %s refused id %s: %w", name, k.desc.Name, clip(id), err)
		case i > 0 && h != hash:
			return 0, fmt.Errorf("the shard function %s of %s has two results for id %s: %#x and %#x (it must depend on the id alone)", name, k.desc.Name, clip(id), hash, h)
		}
		hash = h
	}
	return hash, nil
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
