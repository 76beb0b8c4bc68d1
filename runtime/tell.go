package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runner"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// turnRunner is one of this process's runners, with calls for reuse by its tells.
type turnRunner struct {
	runner.Runner
	told toldCalls
}

// Run runs one turn. It reports whether this goroutine still has the run token.
func (r *turnRunner) Run(t *runner.Turn, args []byte) bool {
	s := hostedOf(t.Entity)
	if t.Call == nil {
		return r.runTold(s, t.Entity, t.Method, args, &r.Token)
	}
	return inbound(&t.Call.Call).runQueued(s, t.Entity, &r.Token, &r.told)
}

// RunAside runs a tell whose turn goes on without the run token.
func (r *turnRunner) RunAside(e *region.Entity, tell runner.Aside) {
	r.runTold(hostedOf(e), e, tell.Method, tell.Args, nil)
}

// Emptied makes the calls of completed tells available for reuse.
func (r *turnRunner) Emptied(idle bool) { r.told.collect(idle) }

// offer gives a tell, which has joined a turn, to the runner. An error means that there is no room for
// the arguments and that the tell will not run.
func (r *turnRunner) offer(s *hostedShard, e *region.Entity, c *outCall) error {
	if r.Offer(runner.Turn{Entity: e, Method: c.Method}, c.Args) {
		return nil
	}
	s.Unjoin(e)
	s.driver().refused(wire.CodeOverloaded)
	return &overload{cause: &noRoom{s, region.NodeBytes, len(c.Args)}}
}

// runTold runs a tell that has joined a turn, on a goroutine that has the run token unless token is
// nil. It reports whether this goroutine still has it.
func (r *turnRunner) runTold(s *hostedShard, e *region.Entity, name string, args []byte, token *runtoken.Token) bool {
	if e.Lost() {
		s.driver().counters.add(tellLost) // the shard was lost behind an earlier tell of the turn
		s.endTurn(e)
		return true
	}
	method := s.host.methods[name]
	if method == nil || e.Value == nil || !s.mayRunInline() {
		return newToldCall(s, e, name, args).runQueued(s, e, token, nil)
	}
	return runTell(s, method, e, name, args, nil, token)
}

// newToldCall makes the call of a tell whose turn must wait, or whose entity must be
// activated first. It copies the arguments, because the batch goes on without the call.
func newToldCall(s *hostedShard, e *region.Entity, name string, args []byte) *inCall {
	c := &inCall{lane: s.lane}
	c.Method, c.Args, c.Tell = wire.BytesOf(name), slices.Clone(args), true
	c.Entity, c.Sender, c.Driver = e.ID, s.driver().self, c
	return c
}

// enqueue is hostedShard.enqueue for a tell, which has neither a chain of callers nor a
// deadline.
func (r *turnRunner) enqueue(s *hostedShard, e *wire.Envelope, current func() bool) (settled bool, err error) {
	drv := s.driver()
	c := r.told.take()
	args, at := append(c.Args, e.Payload...), drv.lately()
	if len(s.host.settings.intercept) > 0 {
		at = time.Now() // for Info.Arrived
	}
	c.fill(drv, drv.self, e, s.lane, at)
	c.Args, c.told = args, true
	entity, v := s.Deliver(&c.Call, at, current)
	switch v {
	case region.Overloaded:
		full := s.noRoom(&c.Call.Call)
		r.told.giveBack(c)
		drv.refused(wire.CodeOverloaded)
		return true, &overload{cause: full}
	case region.Moved:
		r.told.giveBack(c)
		return false, nil
	}
	return s.Accepted(&c.Call, entity, v), nil
}

// toldCalls are calls for reuse by the tells of one runner that had to wait. It is safe for
// concurrent use, except for keep.
type toldCalls struct {
	mu    sync.Mutex
	spare []*inCall

	done []*inCall // completed calls, not yet spare; used only by the goroutine with the run token
}

// maxSpare is how many calls are kept for tells, and maxSpareArgs the longest
// buffer for arguments that is kept with one.
const (
	maxSpare     = 1 << 12
	maxSpareArgs = 2 << 10
)

// take returns an empty call; its Args may have capacity.
func (t *toldCalls) take() (c *inCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.spare) - 1
	if last < 0 {
		return new(inCall)
	}
	c, t.spare = t.spare[last], t.spare[:last]
	return c
}

// giveBack makes a call that was taken and did not become a turn spare again.
func (t *toldCalls) giveBack(c *inCall) {
	c.empty()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, c)
	}
}

// keep is recycle for tells: take is to return the call again, and its buffer is used
// again.
func (t *toldCalls) keep(c *inCall) {
	if len(t.done) >= maxSpare {
		return
	}
	c.empty()
	t.done = append(t.done, c)
}

// fewSpare is the number of calls that are kept for a runner that is idle.
const fewSpare = 64

// collect makes the calls that keep has kept available. With shrink it frees half of
// the spare calls, because a burst is over.
func (t *toldCalls) collect(shrink bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = append(t.spare, t.done[:min(len(t.done), maxSpare-len(t.spare))]...)
	clear(t.done)
	t.done = t.done[:0]
	if shrink {
		n := min(len(t.spare), max(len(t.spare)/2, fewSpare))
		clear(t.spare[n:])
		t.spare = t.spare[:n]
	}
}

// durableTell is a tell of a durable entity's turn, which is sent when the turn is
// committed.
type durableTell struct {
	invoker invoker
	ref     *codegen.Ref
	method  string
	args    []byte
	says    *outgoing
}

// durableTells are the tells of one turn. It is safe for concurrent use.
type durableTells struct {
	mu    sync.Mutex
	all   []durableTell
	taken bool // the turn has ended
}

// add adds a tell of the turn. It reports false if the turn has ended.
func (d *durableTells) add(c *outCall, p invoker) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken {
		d.all = append(d.all, durableTell{p, c.Ref, c.Method, slices.Clone(c.Args), outgoingOf(c.Context)})
	}
	return !d.taken
}

// take ends the turn and returns its tells.
func (d *durableTells) take() []durableTell {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all, d.taken = nil, true
	return all
}

// logged returns the tell in the form of the log.
func (t durableTell) logged() durable.Tell {
	k := t.invoker.kind
	body := durablehost.Body{Method: t.method, Args: t.args}
	if t.says != nil {
		body.Info = t.says.encoded
	}
	return durable.Tell{
		Target: durable.Target{Log: k.desc.Name, Shard: placement.ShardOf(t.ref.Hash, k.shards)},
		Entity: t.ref.ID, Body: body.Append(nil),
	}
}

// loggedTells returns the tells of a commit in the form of the log.
func loggedTells(tells []durableTell) (all []durable.Tell) {
	for _, t := range tells {
		all = append(all, t.logged())
	}
	return all
}

// send sends a tell of a turn without a commit. It is not stored, so it may be lost.
func (t durableTell) send() {
	drv := t.invoker.kind.driver
	ctx := drv.ctx
	if t.says != nil {
		ctx = context.WithValue(ctx, outgoingKey{}, t.says)
	}
	if err := t.invoker.tell(&outCall{Context: ctx, Args: t.args, Ref: t.ref, Method: t.method}); err != nil {
		drv.lost.lose(&drv.counters, NotExecuted)
		drv.seldom.warn(drv.log, "tell of a durable entity could not be sent", t.invoker.kind.desc.Name, t.method,
			"kind", t.invoker.kind.desc.Name, "entity", clip(t.ref.ID), "method", t.method, "err", err)
	}
}

// toldContext is the context of a call that delivers a tell from a shard's log.
type toldContext struct {
	context.Context
	id durablehost.ID
}

// storedTellPatience bounds one attempt to commit a tell of a durable entity at its
// receiver. It is the deadline of the turn there.
const storedTellPatience = time.Minute

// outbox sends the tells in the logs of this process's shards.
type outbox struct{ driver *driver }

// send sends a tell to its receiver. It reports whether the receiver has run it and, if
// it is durable, committed it.
func (o outbox) send(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool) {
	drv := o.driver
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		arrived, err = o.call(ctx, from, tell, body)
	}
	if !arrived && ctx.Err() == nil {
		drv.counters.add(callRetried)
		drv.seldom.warn(drv.log, "tell of a durable entity waits; it is sent again", tell.Target.Log, body.Method, "from", from.String(),
			"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "err", err)
	}
	return arrived
}

// errNoClient means that this program has no client of the tell's type.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// call makes the call that delivers a tell. It is answered, so that the sender learns of
// its end.
func (o outbox) call(ctx context.Context, from store.Shard, tell durable.Tell, body durablehost.Body) (arrived bool, err error) {
	k := (*o.driver.kinds.Load())[tell.Target.Log]
	if k == nil {
		return false, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	info, err := wire.ParseInfo(body.Info)
	if err != nil {
		return false, err
	}
	info.Told = true
	within = withOutgoing(within, info)
	p := invoker{k} // its interceptors have seen the tell already
	ref := codegen.NewRef(p, tell.Entity, nil)
	if err := p.Check(within, ref, body.Method); err != nil {
		return false, err
	}
	as := &toldContext{within, durablehost.TellID(from, tell)}
	_, err = p.Do(as, ref, body.Method, append(codegen.NewArgs(), body.Args...))
	var failed *EntityError
	switch {
	case errors.As(err, &failed) && failed.Panic:
		return !k.desc.Durable, err // its changes were dropped, so it runs again
	case err == nil, OutcomeOf(err) == Executed:
		return true, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return true, err // it is below the receiver's floor: it has run before
	}
	return false, err
}

// givenUp logs a tell that was not committed in time.
func (o outbox) givenUp(from store.Shard, tell durable.Tell) {
	o.driver.counters.add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	attrs := []any{"from", from.String(), "kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number}
	if err != nil {
		attrs = append(attrs, "err", err) // why its method is not known
	}
	o.driver.log.Error("dead letter: a tell of a durable entity was given up, because its receiver has not run it in time", attrs...)
}
