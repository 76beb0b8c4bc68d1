package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// passedOver is how long calls pass over an instance that was lost or overloaded.
const passedOver = time.Second

// A Pool chooses among the instances of a pool for this process's calls. Instance i is the entity
// with id i, alone in the shard with index i. A Pool is safe for concurrent use.
type Pool struct {
	kind  *Kind
	state atomic.Pointer[poolState] // never nil
	calls []poolCalls               // by instance
}

// A poolCalls records what this process's own calls show about an instance.
type poolCalls struct {
	ref   codegen.Ref
	under atomic.Int32 // calls under way
	until atomic.Int64 // the instance is passed over before this time of the lease's clock
}

// A poolState is what the shard table says of a pool.
type poolState struct {
	count int   // the instances are 0 to count-1
	there []int // the instances that have a home
	near  []int // the instances at this process
}

func newPool(k *Kind) *Pool {
	p := &Pool{kind: k, calls: make([]poolCalls, k.Shards)}
	p.state.Store(&poolState{})
	for i := range p.calls {
		r := &p.calls[i].ref
		r.Invoker, r.ID = invoker{k}, strconv.Itoa(i)
		r.Hash, _ = k.Desc.Hash(r.ID)
	}
	return p
}

// follow applies the homes in a shard table, after the routes have applied them.
func (p *Pool) follow(t *placement.TypeTable) {
	next := &poolState{}
	for e := range t.All() {
		if i := int(e.Shard - p.kind.Shards); !e.Home.IsZero() {
			next.count = i + 1
			next.there = append(next.there, i)
			if e.Home == p.kind.Driver.Local.Address {
				next.near = append(next.near, i)
			}
		}
	}
	p.state.Store(next)
	for i := next.count; i < len(p.calls); i++ {
		p.stranded(i)
	}
}

// stranded is called when instance i may have left the pool. If instance i has left, the calls that
// wait for it look for another instance, and the tells that wait for it are sent to another
// instance.
func (p *Pool) stranded(i int) {
	if s := p.state.Load(); i < s.count || s.count == 0 {
		return
	}
	p.kind.Driver.Pending.Strand(&p.kind.routes[i].Route, func(e *wire.Envelope) {
		j := p.any()
		e.Shard, e.Entity = p.kind.Shards+uint32(j), wire.BytesOf(p.calls[j].ref.ID)
		if err := p.kind.routes[j].send(e); err != nil {
			p.kind.Driver.Undelivered.lose(&p.kind.Driver.Counts, calls.NotExecuted)
		}
	})
}

// Count returns the number of instances, or 0 while none has a home.
func (p *Pool) Count() int { return p.state.Load().count }

// better returns the better one of two instances. An instance whose home can be reached and that is
// not passed over is better. Among equals, the instance with fewer calls of this process under way
// is better.
func (p *Pool) better(i, j int) int {
	now := p.kind.Driver.Lease.Now()
	good := func(i int) bool { return p.kind.routes[i].Target() != nil && p.calls[i].until.Load() <= now }
	if a, b := good(i), good(j); a != b {
		if a {
			return i
		}
		return j
	}
	if p.calls[j].under.Load() < p.calls[i].under.Load() {
		return j
	}
	return i
}

// any returns the instance for a call: an idle instance at this process if there is one, else the
// better one of two random instances (see better). If neither of these two can take calls, it
// returns the best of all instances.
func (p *Pool) any() int {
	s := p.state.Load()
	if i, ok := p.idle(s); ok {
		return i
	}
	n := len(s.there)
	switch n {
	case 0:
		return 0
	case 1:
		return s.there[0]
	}
	i := rand.IntN(n)
	j := rand.IntN(n - 1)
	if j >= i {
		j++
	}
	best := p.better(s.there[i], s.there[j])
	if c := &p.calls[best]; c.until.Load() > p.kind.Driver.Lease.Now() || p.kind.routes[best].Target() == nil {
		for _, i := range s.there {
			best = p.better(best, i)
		}
	}
	return best
}

// idle returns an instance at this process that runs no turn.
func (p *Pool) idle(s *poolState) (i int, ok bool) {
	for _, i := range s.near {
		c, at := &p.calls[i], p.kind.routes[i].local()
		if at == nil || c.under.Load() > 0 || c.until.Load() > p.kind.Driver.Lease.Now() {
			continue
		}
		if e := at.look(&c.ref); e == nil || !e.Busy() {
			return i, true
		}
	}
	return 0, false
}

// near returns the best instance at this process, or the result of any if none is here.
func (p *Pool) near() int {
	s := p.state.Load()
	if len(s.near) == 0 {
		return p.any()
	}
	best := s.near[rand.IntN(len(s.near))]
	for _, i := range s.near {
		best = p.better(best, i)
	}
	return best
}

// of returns the instance of a key, by rendezvous hashing. If the pool grows from n to n+1
// instances, only one key in n+1 gets another instance.
func (p *Pool) of(key string) int {
	hash, best, most := xxhash.Sum64String(key), 0, uint64(0)
	for i := range p.state.Load().count {
		if w := codegen.MixHash(hash ^ codegen.MixHash(uint64(i))); w > most {
			best, most = i, w
		}
	}
	return best
}

// A chooser is the invoker of references that choose an instance for each call.
type chooser struct {
	invoker
	choice codegen.PoolChoice
	key    string
}

var (
	_ codegen.Invoker     = chooser{}
	_ codegen.PoolInvoker = invoker{}
)

// Choose returns the invoker of references that choose an instance by choice and key.
func (p invoker) Choose(choice codegen.PoolChoice, key string) codegen.Invoker {
	return chooser{p, choice, key}
}

// lookAgain is the interval at which Instances looks for the first instance.
const lookAgain = 5 * time.Millisecond

// Instances returns the number of instances. It waits up to CallTimeout for the first one, and then
// returns 0.
func (p invoker) Instances() (n int) {
	drv := p.kind.Driver
	if p.kind.Pool == nil {
		return 0
	}
	for late := time.Now().Add(drv.Config.CallTimeout); time.Now().Before(late) && !drv.Closed(); {
		if n = p.kind.Pool.Count(); n > 0 {
			break
		}
		drv.Control.Ask(p.kind.Desc.Name)
		time.Sleep(lookAgain)
	}
	return n
}

func (p chooser) choose() int {
	switch p.choice {
	case codegen.PoolKey:
		return p.kind.Pool.of(p.key)
	case codegen.PoolNear:
		return p.kind.Pool.near()
	case codegen.PoolAny:
	}
	return p.kind.Pool.any()
}

// Hash returns 0. A call uses the hash of the chosen instance.
func (p chooser) Hash(string) (uint64, error) { return 0, p.kind.poolErr() }

// Refs returns nil: references that choose are not used again.
func (p chooser) Refs() *codegen.RefCache { return nil }

// Begin begins a turn if the chosen instance is at this process. For PoolAny it must also be idle.
func (p chooser) Begin(ctx context.Context, r *codegen.Ref, method string, noContext bool) (codegen.Turn, error) {
	_, odd := r.Invoker.(*codegen.RefWithOptions)
	if odd || ctx.Err() != nil {
		if err := p.cannot(ctx, r, method); err != nil {
			return p.unbegun(ctx, r, method, err)
		}
		if odd {
			return codegen.Turn{}, nil
		}
	}
	pool, i := p.kind.Pool, 0
	switch p.choice {
	case codegen.PoolAny:
		var ok bool
		if i, ok = pool.idle(pool.state.Load()); !ok {
			return codegen.Turn{}, nil
		}
	case codegen.PoolNear, codegen.PoolKey:
		i = p.choose()
	}
	return p.invoker.Begin(ctx, &pool.calls[i].ref, method, noContext)
}

// Send sends a tell to a chosen instance.
func (p chooser) Send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	if err := unfit(r); err != nil || delayOf(r) != nil {
		return p.invoker.Send(ctx, r, method, args) // the invoker fails, with the reason
	}
	return p.invoker.Send(ctx, &p.kind.Pool.calls[p.choose()].ref, method, args)
}

// Do sends a call to a chosen instance and waits for the call's results. Do chooses an instance
// again, until the call's deadline, if the call failed before it began. It also does so if the call
// was lost and the method is one that may run twice.
func (p chooser) Do(ctx context.Context, r *codegen.Ref, method string, args []byte) (results []byte, err error) {
	began := p.kind.Driver.Lease.Now()
	ctx, trace := p.trace(ctx, r, method, false)
	results, err = p.do(ctx, r, method, args, trace)
	trace.end(err)
	p.made(r, method, false, began, err)
	turnOf(ctx).waitedSince(began)
	return results, err
}

func (p chooser) do(ctx context.Context, r *codegen.Ref, method string, args []byte, trace *sentTrace) (results []byte, err error) {
	c := outCall{Context: ctx, Args: args, Ref: r, Method: method, again: slices.Contains(p.kind.Desc.Again, method), trace: trace}
	defer func() { codegen.Recycle(c.Args) }()
	drv, pool := p.kind.Driver, p.kind.Pool
	up, mapped := callerOf(ctx)
	if mapped != nil {
		return nil, p.fail(r, method, calls.NotExecuted, mapped.fail(errMapCalls))
	}
	if up != nil {
		if d := durableOf(up); d != nil && !d.logged() {
			within, stop := p.limit(ctx, r)
			defer stop()
			if err := p.mayLeave(within, up, r, method); err != nil {
				return nil, err
			}
			c.Context = within
		}
	}
	up.yieldLane()
	limit := calls.NewDeadline(c.Context, r.Timeout(), drv.Config.CallTimeout, drv.tr.Load() != nil)
	defer limit.Stop()
	for try, again := 0, true; again; try++ {
		i := p.choose()
		results, again, err = p.once(&c, up, &limit, i, try)
		if err == nil && !again && try > 0 {
			pool.calls[i].until.Store(0)
		}
	}
	return results, err
}

// once makes one attempt to call instance i. If again is true, the caller must make another
// attempt.
func (p chooser) once(c *outCall, up *turn, limit *calls.Deadline, i, try int) (results []byte, again bool, err error) {
	drv, pool := p.kind.Driver, p.kind.Pool
	of := &pool.calls[i]
	c.Ref = &of.ref
	of.under.Add(1)
	defer of.under.Add(-1)
	w, id, err := p.attempt(c, up, limit)
	if err != nil {
		return nil, false, err
	}
	pool.stranded(i) // if the instance ended after it was chosen, nothing else would end the wait
	answered := calls.Await(c.Context, &drv.Pending, w, id, limit)
	if !answered {
		again, err = p.failed(c, w, id, limit, answered, try)
		return nil, again, err
	}
	switch code := w.Result().Code; code {
	case wire.CodeOK:
		results = w.Result().Payload
		drv.Pending.Free(w, c.Ref.Hash)
		return results, false, nil
	case wire.CodeOverloaded, calls.Lost:
		of.until.Store(drv.Lease.Now() + int64(passedOver))
		if code != wire.CodeOverloaded || p.choice == codegen.PoolKey || pool.Count() < 2 {
			break
		}
		full := p.resultError(c, *w.Result(), calls.NotExecuted)
		limit.Seen(w.Over(), drv.Lease.Base())
		drv.Pending.Free(w, c.Ref.Hash)
		c.trace.again(full)
		if limit.Sleep(calls.Pause(try)) {
			return nil, true, full
		}
		return nil, false, full
	}
	again, err = p.failed(c, w, id, limit, answered, try)
	return nil, again, err
}

// poolErr returns why calls cannot choose an instance of the kind, or nil.
func (k *Kind) poolErr() error {
	if k.Err == nil && k.Pool == nil {
		return fmt.Errorf("%w: clients of type %s in this program disagree whether it is a pool (run go generate for all of them)", ErrMismatch, k.Desc.Name)
	}
	return k.Err
}

var errNotPool = errors.New("ctx is not the context of a pool's method (pass the method's own context, before the method returns)")

// InstanceOf returns the number of the pool's instance whose turn ctx belongs to, and the number of
// instances.
func InstanceOf(ctx context.Context) (index, count int, err error) {
	t := turnOf(ctx)
	if t == nil || t.shard().Host.Kind.Pool == nil {
		return 0, 0, errNotPool
	}
	s := t.shard()
	index = int(s.ID.Shard - s.Host.Kind.Shards)
	return index, max(s.Host.Kind.Pool.Count(), index+1), nil
}
