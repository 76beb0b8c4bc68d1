package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// InCall is a call at its host. It comes from another process, from a queue of this process, or
// from a local caller that waits for its turn. After the turn has ended and the call was answered,
// the InCall is reused by its lane (keep), its runner (toldCalls.keep) or any goroutine (recycle).
// The entity refers to the InCall, so the shard must first drop the InCall (End, or Detach).
type InCall struct {
	shardhost.Call
	ownsArgs bool // Args is a buffer from codegen.NewArgs
	told     bool // made by TurnRunner.enqueue and kept by its runner
	lane     int
	from     *peers.Session              // the session on which the call came; nil for a call of this process
	Encoded  atomic.Pointer[encodedTurn] // the call's turn; nil before the turn begins, or if nobody can see the turn
	failed   *failure                    // the failure that the supervisor decides about; nil means none
	run      runner.Hold                 // the turn's hold on its lane or runner; zero means it has none
	began    int64                       // when its turn began, in nanoseconds after the driver's base; 0 for tells that begin by the coarse clock
	timed    int64                       // start of a timed tell whose began is 0; else 0
	arrived  time.Time                   // when the call arrived; for tells of this process up to calls.SweepInterval earlier, unless the type has interceptors or the call has headers

	// here is the hereCall that contains this call, if its turn runs on its caller's goroutine and
	// its entity is durable.
	here *hereCall
	// granted is set for a waiting local caller. It receives the entity when the caller's turn
	// begins, or nil if the caller must look for the home again.
	granted chan *region.Entity
}

func (c *InCall) newTurn(e *region.Entity) *encodedTurn {
	var d *durableTurn
	if hostedOf(e).Durable != nil {
		d = c.here.newTurn()
	}
	r := c.turnIn(d, e)
	r.run = c.run
	c.Encoded.Store(r)
	return r
}

// described describes the call's turn. It does not read the turn itself, because the turn may be
// running.
func (c *InCall) described(e *region.Entity) operator.Turn {
	var d *durableTurn
	if hostedOf(e).Durable != nil {
		d = new(durableTurn)
	}
	return c.turnIn(d, e).turn.described()
}

// turnIn returns a turn with the data of the call, without its hold on a lane or runner. If the
// type is durable, the turn is the one in d. Otherwise d is nil.
func (c *InCall) turnIn(d *durableTurn, e *region.Entity) (r *encodedTurn) {
	if d != nil {
		d.deadline, d.chain = c.Deadline, c.Links
		r = &d.encodedTurn
		r.turn.parent = d
		if c.here != nil {
			d.caller, r.turn.depth = c.here.ctx, c.here.depth
		}
	} else if c.Tell {
		r = new(encodedTurn)
		r.turn.parent = r
	} else {
		whole := &remoteTurn{deadline: c.Deadline, chain: c.Links}
		r = &whole.encodedTurn
		r.turn.parent = whole
	}
	drv := hostedOf(e).driver()
	r.turn.entity, r.turn.method, r.from, r.era = e, wire.StringOf(c.Method), c.from, drv.Turning.now.Load().era
	if len(c.Info) > 0 || !c.Via.IsZero() || c.Tell && hostedOf(e).Durable != nil || c.from == nil && c.Sender.Address != drv.Local.Address {
		r.unusual = &unusualCall{c.Sender, c.Info, c.Tell}
	}
	return r
}

func (c *InCall) after() uint32 {
	if r := c.Encoded.Load(); r != nil {
		return r.turn.after()
	}
	return 0
}

func (c *InCall) hasCommand() bool {
	return len(c.Command) > 0 || c.here != nil && !c.here.command.IsZero()
}

var inCalls = sync.Pool{New: func() any { return new(InCall) }}

// recycle frees the call for reuse. Its turn must have ended, and nothing may refer to it.
func (c *InCall) recycle() {
	if c.told {
		return // its runner keeps it, or the garbage collector has it
	}
	if c.here != nil {
		c.here.recycle()
		return
	}
	if c.ownsArgs {
		codegen.Recycle(c.Args)
	}
	*c = InCall{}
	inCalls.Put(c)
}

// empty clears a tell for reuse. It drops a buffer above maxSpareArgs.
func (c *InCall) empty() {
	args := c.Args[:0]
	if cap(args) > maxSpareArgs {
		args = nil
	}
	*c = InCall{}
	c.Args = args
}

func newInCall(drv *Driver, from transport.Peer, e *wire.Envelope, lane int, at time.Time) *InCall {
	c := inCalls.Get().(*InCall)
	c.fill(drv, from, e, lane, at)
	return c
}

// fill sets the empty c to an envelope's call. c refers to the bytes of the frame.
func (c *InCall) fill(drv *Driver, from transport.Peer, e *wire.Envelope, lane int, at time.Time) {
	c.Fill(from, e, int64(at.Sub(drv.Lease.Base())))
	c.Driver, c.lane, c.arrived = c, lane, at
}

func Inbound(c *region.Call) *InCall { return c.Driver.(*InCall) }

// maxAlone bounds the turns of remote calls on goroutines of their own. Above it the lane's
// goroutine runs turns itself, so senders have to wait.
const maxAlone = 16 << 10

func (c *InCall) runAlone(s *HostedShard, e *region.Entity, p *runner.SlowTurnDetector) bool {
	drv := s.driver()
	if drv.alone.Add(1) > maxAlone {
		drv.alone.Add(-1)
		return false
	}
	drv.Group.Go(func() {
		defer drv.alone.Add(-1)
		a := c.guarded(s, e)
		p.Took(time.Duration(drv.Lease.Now() - c.began))
		c.finish(s, e, a, peers.Pumps{})
	})
	return true
}

// runQueued runs a turn on a runner's goroutine, and reports whether this goroutine still has the
// run token. If the call is a tell of that runner, reuse keeps the InCall.
func (c *InCall) runQueued(s *HostedShard, e *region.Entity, token *runner.Token, reuse *toldCalls) bool {
	c.run = token.Enter()
	a := c.guarded(s, e)
	kept := c.run.Leave()
	if !kept {
		s.lostToken(e)
	}
	told := c.told // finish copies the others
	c.finish(s, e, a, peers.Pumps{})
	if kept && told {
		reuse.keep(c)
	}
	return kept
}

// finish ends a turn and, unless the call is a tell, answers it. Meanwhile Driver.answering counts it.
func (c *InCall) finish(s *HostedShard, e *region.Entity, a answer, by peers.Publisher) {
	drv, answers := s.driver(), c.ID != 0
	if answers {
		drv.answering.Add(1)
		defer drv.answering.Add(-1)
	}
	s.endTurnOf(e, c.after(), c.failed)
	c.answer(drv, a, by)
}

// answer sends the result of a turn, unless the call is a tell, and recycles the call. An answer
// that the lease does not allow yet waits in its session, or on a goroutine if the caller is here.
func (c *InCall) answer(drv *Driver, a answer, by peers.Publisher) {
	if a.after != nil && c.ID != 0 && !a.after.mayLeave() {
		a.after.answer(drv, c, a)
		return
	}
	own := c.Sender.Address == drv.Local.Address
	if c.ID != 0 && own && !drv.watch.Valid(&drv.Lease) && !drv.Lease.MayAnswer() {
		drv.Group.Go(func() { c.answerLeased(drv, a) })
		return
	}
	if c.ID != 0 {
		c.answerNow(drv, a, by)
	}
	if c.ID == 0 || !own {
		a.sent()
	}
	if l, ok := by.(*lane); ok {
		l.keep(c)
	} else {
		c.recycle()
	}
}

func (c *InCall) answerNow(drv *Driver, a answer, by peers.Publisher) {
	if c.Sender.Address == drv.Local.Address {
		drv.complete(c.ID, a)
		return
	}
	e := a.envelope(drv, c.ID)
	drv.answer(c, &e, by)
}

// answerLeased answers a local caller when the lease allows it. A downed node never answers,
// because another node may have run the entity.
func (c *InCall) answerLeased(drv *Driver, a answer) {
	if drv.waitAnswer() == nil {
		c.answerNow(drv, a, nil)
	}
}

// guarded is execute, but it also answers the call if the method calls runtime.Goexit.
func (c *InCall) guarded(s *HostedShard, e *region.Entity) (a answer) {
	returned := false
	defer func() {
		if returned {
			return
		}
		c.run.HandOver()
		s.lostToken(e)
		s.Host.died("runtime.Goexit in " + string(c.Method))
		c.failed = s.Host.panicFailure(e.ID, string(c.Method), "runtime.Goexit")
		a = exited
		c.ran(s, e, s.Host.methods[string(c.Method)], a)
		c.finish(s, e, a, nil)
	}()
	a = c.execute(s, e)
	returned = true
	return a
}

func (c *InCall) execute(s *HostedShard, e *region.Entity) (a answer) {
	drv := s.driver()
	method := s.Host.methods[string(c.Method)]
	leased, now := c.told && s.mayRunInline(), int64(0)
	if !leased { // else it is a tell of this process and has no deadline either
		if c.here == nil { // else it has just been made
			c.began = drv.Lease.Now()
		}
		now = c.began
		leased = s.mayRunAt(now)
	}
	var r *encodedTurn // nil: nobody can see the turn
	traced := drv.tracing != nil && method != nil && method.number != 0 && wire.Traced(c.Info)
	if method == nil || !method.unseen || !leased || e.Value == nil || traced {
		hidden := method != nil && method.hidden
		if c.here != nil {
			c.here.hidden = hidden && leased && !traced
		}
		r = c.newTurn(e)
		r.hidden = hidden
	}
	defer r.finish()
	if !leased {
		if a, ok := s.leased(&r.turn); !ok {
			return a
		}
		now = drv.Lease.Now()
	}
	if c.Deadline != 0 && now > c.Deadline {
		drv.Counts.Add(callExpired)
		return answer{code: wire.CodeExpired}
	}
	if c.Sender.Client && c.ID != 0 { // it was accepted, and has waited
		if p := drv.Sessions.Session(c.Sender, c.lane); p != nil && p.Core.Account.Excess() != stream.Within {
			return answer{code: wire.CodeOverloaded, text: unacknowledged(p)}
		}
	}
	if method == nil && !ofShard(e) {
		return answer{code: wire.CodeNoMethod, text: NoMethod(string(c.Method), slices.Sorted(maps.Keys(s.Host.Desc.Dispatch)))}
	}
	if s.Durable != nil && method != nil {
		r.turn.parent.(*durableTurn).read = method.read
	}
	var run codegen.Method // nil: the call is to the shard itself
	if method != nil {
		run = method.run
		if c.began == 0 {
			c.timed = s.dueTold(method.number)
		}
	}
	if traced {
		a = c.traced(s, r, e, run)
	} else {
		a = c.intercepted(s, r, nil, e, run)
		if r != nil {
			r.endFiring()
		}
	}
	c.ran(s, e, method, a)
	return a
}

// intercepted runs the method inside the host's interceptors, if there are any. ctx is the context for
// them; nil means the turn's.
func (c *InCall) intercepted(s *HostedShard, r *encodedTurn, ctx context.Context, e *region.Entity, method codegen.Method) answer {
	// Interceptors are around the method of a reminder that MethodFire runs.
	if name := wire.StringOf(c.Method); len(s.Host.Settings.Intercept) > 0 && name != wire.MethodFire && name != wire.MethodDead {
		return c.within(s, r, ctx, e, method)
	}
	return c.perform(s, r, e, method)
}

func (c *InCall) perform(s *HostedShard, r *encodedTurn, e *region.Entity, method codegen.Method) answer {
	switch {
	case ofShard(e):
		return s.list(r, wire.StringOf(c.Method), c.Args)
	case s.Durable != nil:
		return r.turn.parent.(*durableTurn).runCall(e, c, method)
	}
	return runMethod(s, r, e, c, method)
}

func (c *InCall) within(s *HostedShard, r *encodedTurn, ctx context.Context, e *region.Entity, method codegen.Method) (a answer) {
	t, run := &r.turn, false
	if ctx == nil {
		ctx = t
	}
	info := t.info()
	info.Arrived = c.arrived
	info.Method = calledMethod(info.Method, c.Args)
	refusal := c.asked(s, ctx, t, info, func(ctx context.Context) error {
		switch {
		case run:
			return errNextTwice
		case turnOf(ctx) != t:
			return errContext
		}
		run = true
		var own error // the method's
		inner := func(_ context.Context, entity any, args, out []byte) ([]byte, error) {
			out, err := method(ctx, entity, args, out)
			own = err
			return out, err
		}
		a = c.perform(s, r, e, inner)
		return a.err(s, info, own)
	})
	if run {
		return a
	}
	if refusal == nil {
		refusal = errNoNext
	}
	s.driver().refused(wire.CodeIntercepted)
	if d := durableOf(t); d != nil {
		tells, after := d.tells.take() // of interceptors; there is no commit that they could be part of
		for _, tell := range append(tells, after...) {
			tell.send(s.driver())
		}
	}
	text, causes := codegen.DescribeError(s.Host.Kind.errors(), refusal)
	a = answer{code: wire.CodeIntercepted, text: text}
	if len(causes) > 0 {
		a.payload = &causes
	}
	return a
}

func (c *InCall) asked(s *HostedShard, ctx context.Context, t *turn, info CallInfo, next func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.Host.notePanic(t.entity.ID, "an interceptor of "+info.Method, r)
			err = PanicError("an interceptor", r)
		}
	}()
	return intercept(ctx, s.Host.Settings.Intercept, func(context.Context) CallInfo { return info }, next)
}
