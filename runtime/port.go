package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// maxIDBytes bounds an entity id.
const maxIDBytes = 1024

// port is one kind as this process reaches it.
type port struct{ kind *kind }

var _ codegen.Port = port{}

// Locate resolves an id to its hash and shard.
func (p port) Locate(id string) (hash uint64, shard uint32, err error) {
	k := p.kind
	switch {
	case k.err != nil:
		return 0, 0, k.err
	case id == "":
		return 0, 0, fmt.Errorf("%w: it is empty (want 1 to %d bytes)", ErrBadID, maxIDBytes)
	case len(id) > maxIDBytes:
		return 0, 0, fmt.Errorf("%w: it has %d bytes (want 1 to %d)", ErrBadID, len(id), maxIDBytes)
	case k.desc.Hash == nil:
		hash = xxhash.Sum64String(id)
	default:
		if hash, err = k.ownHash(id); err != nil {
			return 0, 0, fmt.Errorf("%w: %w", ErrBadID, err)
		}
	}
	return hash, placement.ShardOf(hash, k.shards), nil
}

// ownHash asks the user's shard function, twice: two answers for one id would be
// two homes for one entity.
func (k *kind) ownHash(id string) (hash uint64, err error) {
	name := k.desc.HashName
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the shard function %s of %s panicked for id %s: %v (it must take every id)", name, k.desc.Name, clip(id), r)
		}
	}()
	for i := range 2 {
		h, err := k.desc.Hash(id)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the shard function %s of %s refused id %s: %w", name, k.desc.Name, clip(id), err)
		case i > 0 && h != hash:
			return 0, fmt.Errorf("the shard function %s of %s has two answers for id %s: %#x and %#x (it must depend on the id alone)", name, k.desc.Name, clip(id), hash, h)
		}
		hash = h
	}
	return hash, nil
}

func (p port) fail(r *codegen.Ref, method string, outcome Outcome, err error) error {
	return &CallError{Kind: p.kind.desc.Name, ID: r.ID, Method: method, Outcome: outcome, Err: err}
}

// Begin starts a call: on the entity itself where it lives here and may run on
// the caller's goroutine.
func (p port) Begin(ctx context.Context, r *codegen.Ref, method string) (codegen.Turn, error) {
	if r.Odd != nil || ctx.Err() != nil {
		if err := p.cannot(ctx, r, method); err != nil {
			return codegen.Turn{}, err
		}
	}
	up := turnOf(ctx)
	if up != nil {
		if d := durableOf(up); d != nil {
			if err := d.before(ctx); err != nil {
				return codegen.Turn{}, p.fail(r, method, NotExecuted, err)
			}
		}
		if up.depth >= maxInline {
			return codegen.Turn{}, nil
		}
	}
	if p.kind.desc.Durable {
		return p.beginRead(ctx, up, r, method)
	}
	if e, ok := r.Near.Load().(*region.Entity); ok && hostedOf(e).tryEnter(e) {
		return hostedOf(e).begin(ctx, up, e, method)
	}
	k := p.kind
	s := k.routeOf(r.Hash).local()
	if s == nil || !k.host.settings.inline {
		return codegen.Turn{}, nil
	}
	if e := s.enter(r); e != nil {
		return s.begin(ctx, up, e, method)
	}
	return p.waitTurn(ctx, up, s, r, method)
}

// cannot is why a call cannot begin: its reference is bad, or its time is over.
func (p port) cannot(ctx context.Context, r *codegen.Ref, method string) error {
	why := r.Err()
	if why == nil && r.Timeout() < 0 {
		why = expired("its time-out is negative (give shard.Timeout a positive one)")
	}
	if err := ctx.Err(); why == nil && err != nil {
		why = fmt.Errorf("%w: its context was over before it began%s", err, moreTime(err))
	}
	if why == nil {
		return nil
	}
	return p.fail(r, method, NotExecuted, why)
}

// waitTurn waits for the entity's turn, for a local caller; the call is encoded
// after all when the shard leaves meanwhile.
func (p port) waitTurn(ctx context.Context, up *turn, s *hostedShard, r *codegen.Ref, method string) (codegen.Turn, error) {
	pl := p.kind.plane
	c := &inCall{granted: make(chan *region.Entity, 1), lane: s.lane}
	c.Entity, c.Sender, c.Local, c.Driver = r.ID, pl.self, true, c
	if up != nil {
		c.Links = up.appendChain(nil)
		c.Chain = shardhost.Chain(c.Links)
	}
	e, v := s.Deliver(&c.Call, time.Now(), nil)
	switch v {
	case region.Run:
		return s.begin(ctx, up, e, method)
	case region.Moved, region.Forward, region.Shed:
		return codegen.Turn{}, nil
	case region.Overloaded:
		pl.counters.add(callRefused)
		return codegen.Turn{}, p.fail(r, method, NotExecuted, &overload{cause: s.noRoom(&c.Call.Call)})
	case region.Circular:
		pl.counters.add(callRefused)
		return codegen.Turn{}, p.fail(r, method, NotExecuted, circular((*shardEnv)(s).Why(&c.Call, v)))
	}
	up.yieldLane()
	limit, stop := p.limit(ctx, r)
	defer stop()
	select {
	case g := <-c.granted:
		return p.granted(ctx, up, s, r, method, g)
	case <-limit.Done():
	case <-pl.stop:
	}
	if !s.Withdraw(&c.Call) { // it was granted at the same time
		return p.granted(ctx, up, s, r, method, <-c.granted)
	}
	pl.counters.add(callExpired)
	if pl.closed() {
		return codegen.Turn{}, p.fail(r, method, NotExecuted, pl.errClosed())
	}
	return codegen.Turn{}, p.fail(r, method, NotExecuted, waitError(limit, errBusy))
}

func (p port) granted(ctx context.Context, up *turn, s *hostedShard, r *codegen.Ref, method string, e *region.Entity) (codegen.Turn, error) {
	if e == nil {
		p.kind.plane.counters.add(callRetried)
		return codegen.Turn{}, nil
	}
	return s.begin(ctx, up, e, method)
}

// limit is ctx with the time-out of calls that have no deadline.
func (p port) limit(ctx context.Context, r *codegen.Ref) (context.Context, context.CancelFunc) {
	timeout := r.Timeout()
	if _, ok := ctx.Deadline(); ok && timeout == 0 {
		return ctx, func() {}
	}
	if timeout == 0 {
		timeout = p.kind.plane.cfg.CallTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// Check returns why a call cannot be sent.
func (p port) Check(ctx context.Context, r *codegen.Ref, method string) error {
	return p.cannot(ctx, r, method)
}

// Send sends a tell. It is on its way, or waits for its shard's home, when nil
// is returned; nobody says whether it arrived.
func (p port) Send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	c := outCall{Context: ctx, Args: args, Ref: r, Method: method}
	defer codegen.Recycle(c.Args)
	if err := p.cannot(c.Context, c.Ref, c.Method); err != nil {
		return err
	}
	if d := durableOf(turnOf(ctx)); d != nil && d.tells.add(&c, p) { // it is part of the turn's commit
		return nil
	}
	return p.tell(&c)
}

// tell is Send for a tell that may leave now.
func (p port) tell(c *outCall) error {
	if p.kind.plane.closed() {
		return p.fail(c.Ref, c.Method, NotExecuted, p.kind.plane.errClosed())
	}
	if near, err := p.tellNear(c); err != nil {
		return p.fail(c.Ref, c.Method, NotExecuted, err)
	} else if near {
		return nil
	}
	e := p.envelope(c, wire.TypeTell)
	if err := p.route(c).send(&e); err != nil {
		return p.fail(c.Ref, c.Method, NotExecuted, publicError(err))
	}
	return nil
}

// Failed is the caller's error of a call whose arguments do not encode or, if it ran,
// whose results do not decode.
func (p port) Failed(r *codegen.Ref, method string, ran bool, err error) error {
	if ran {
		return p.fail(r, method, Executed, err)
	}
	return p.fail(r, method, NotExecuted, err)
}

func (p port) route(c *outCall) *route { return p.kind.routeOf(c.Ref.Hash) }

func (p port) envelope(c *outCall, t wire.Type) wire.Envelope {
	k := p.kind
	e := wire.Envelope{
		Type: t, Kind: k.name, Shard: placement.ShardOf(c.Ref.Hash, k.shards),
		Entity: nocopy.Bytes(c.Ref.ID), Method: nocopy.Bytes(c.Method), Payload: c.Args,
	}
	if t == wire.TypeCall {
		e.Chain = turnOf(c.Context).appendChain(nil)
	}
	if c.Command != nil {
		e.Command = c.Command.encoded(p.kind.plane)
	}
	return e
}

// enterDurable begins a turn of a durable entity for a local caller, whose goroutine is to run
// it. It returns no entity where the call has to queue, or where its home is elsewhere.
func (p port) enterDurable(c *outCall, r *route) (*hostedShard, *region.Entity) {
	k := p.kind
	if k.host == nil || !k.host.settings.inline {
		return nil, nil
	}
	if up := turnOf(c.Context); up != nil && up.depth >= maxInline {
		return nil, nil
	}
	if e, ok := c.Ref.Near.Load().(*region.Entity); ok && hostedOf(e).tryEnter(e) {
		return hostedOf(e), e
	}
	s := r.local()
	if s == nil {
		return nil, nil
	}
	return s, s.enter(c.Ref)
}

// beginRead is Begin for a durable type. A method that changes nothing runs on the caller's
// goroutine, as one of a volatile type does, if its entity is active and the log has all of
// its state. The arguments and results of others are part of their commits: see attempt.
func (p port) beginRead(ctx context.Context, up *turn, r *codegen.Ref, method string) (codegen.Turn, error) {
	k := p.kind
	if k.host == nil || !k.host.desc.Reads[method] || !k.host.settings.inline || invariant.Enabled {
		return codegen.Turn{}, nil // with invariants on, the method's end is compared with its beginning
	}
	e, ok := r.Near.Load().(*region.Entity)
	if !ok || !hostedOf(e).tryEnter(e) {
		s := k.routeOf(r.Hash).local()
		if s == nil {
			return codegen.Turn{}, nil
		}
		if e = s.look(r); e == nil || !s.tryEnter(e) {
			return codegen.Turn{}, nil
		}
		r.Near.Store(e)
	}
	s := hostedOf(e)
	if !s.durable.mayRead(e) {
		s.endTurn(e)
		return codegen.Turn{}, nil
	}
	return s.begin(ctx, up, e, method)
}
