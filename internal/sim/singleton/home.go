package singleton

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

type home actor

var (
	_ singlehost.Home = (*home)(nil)
	_ shardhost.Host  = (*home)(nil)
)

func (h *home) actor() *actor { return (*actor)(h) }

// Log adds a line to the trace.
func (h *home) Log(l slog.Level, text string, args ...any) {
	(*controlEnv)(h).Log(l, text, args...)
}

func (h *home) Count(shardhost.Counter)         {}
func (h *home) Context() context.Context        { return context.Background() }
func (h *home) Now() time.Time                  { return h.actor().now() }
func (h *home) Ticks() uint32                   { return 0 }
func (h *home) Elapsed() int64                  { return int64(h.run.world.Now()) }
func (h *home) After(d time.Duration, f func()) { h.actor().after(d, f) }

// Go calls f after at most 20 ms.
func (h *home) Go(f func()) { h.After(h.run.milliseconds(0, 20), f) }

type value struct{ turns uint64 }

var (
	errNoTurn = errors.New("simulated: turns may not run here")
	errDies   = errors.New("simulated: the instance died")
)

// Activate activates an instance. Some instances die by themselves later.
func (h *home) Activate(life context.Context, e *region.Entity) error {
	a, r := h.actor(), h.run
	switch {
	case life.Err() != nil:
		return life.Err()
	case !a.mayTurn():
		return errNoTurn
	case e.Value != nil:
		r.fail("%s: an active instance is started again", h.self.Name)
	}
	v := &value{}
	if e.State() != nil {
		v.turns = binary.BigEndian.Uint64(e.State())
		r.counts.Handed++
	}
	e.Value, h.value = v, v
	e.SetState(nil, codegen.Fresh)
	h.active = true
	h.life++
	r.counts.Started++
	r.trace("%s starts an instance under %v after %d turns", h.self.Name, h.shard.Core.Epoch(), v.turns)
	r.begins(a, v.turns)
	if r.calm || r.plan.planned && r.random.IntN(3) == 0 {
		return nil
	}
	if !r.plan.planned && r.random.IntN(16) == 0 {
		return errDies
	}
	for range r.random.IntN(3) {
		h.instance.Go(func(context.Context) error { return nil })
	}
	if n := h.life; !r.plan.planned && r.random.IntN(4) == 0 {
		h.After(r.milliseconds(0, 5000), func() {
			if h.life == n && h.active && !r.calm {
				h.failed = n
				h.instance.Fail(errDies.Error())
			}
		})
	}
	return nil
}

// RunTask runs a task. The task ends by itself at any time, or some time after its context.
func (h *home) RunTask(life context.Context, _ singlehost.Task, ended func(error)) {
	h.tasks++
	end := func(err error) {
		h.run.counts.Tasks++
		h.tasks--
		ended(err)
	}
	fails := !h.run.plan.planned && h.run.random.IntN(8) == 0
	var look func()
	look = func() {
		switch {
		case life.Err() != nil:
			d := h.run.milliseconds(0, 200)
			if h.run.random.IntN(10) == 0 {
				d = h.run.milliseconds(0, 8000) // this task ignores the end of its context
			}
			h.After(d, func() { end(nil) })
		case fails && !h.run.calm && h.run.random.IntN(100) == 0:
			end(errDies)
		case h.run.random.IntN(400) == 0:
			end(nil)
		default:
			h.After(pollEvery, look)
		}
	}
	h.After(pollEvery, look)
}

func (h *home) turn() {
	if e := h.shard.Begin(codegen.SingletonID); e != nil {
		if !h.active || e.Value == nil || h.failed == h.life {
			h.run.fail("%s: a turn begins on an instance that is not active, or has failed", h.self.Name)
			return
		}
		h.After(h.run.milliseconds(0, 30), func() {
			if v, ok := e.Value.(*value); !ok {
				h.run.fail("%s: the instance ends during a turn", h.self.Name)
			} else if h.actor().mayTurn() {
				v.turns++
				h.run.turns = v.turns
				h.run.counts.Turns++
			}
			h.EndTurn(e)
		})
	}
	h.After(h.run.milliseconds(10, 400), h.turn)
}

// Lost records that the instance has died.
func (h *home) Lost(*region.Entity) {
	h.run.counts.Died++
	h.end("has died")
}

func (h *home) end(how string) {
	if h.tasks > 0 {
		h.run.fail("%s: the instance %s while %d of its tasks run", h.self.Name, how, h.tasks)
	}
	h.active = false
	h.life++
	h.run.trace("%s: the instance %s", h.self.Name, how)
}

func (h *home) EndTurn(e *region.Entity) {
	h.shard.LeaveTurn(e, h.Ticks())
}

// Passivate stops the instance and keeps its state for the handoff.
func (h *home) Passivate(entities []*region.Entity, why codegen.Passivation) {
	for _, e := range entities {
		if !h.shard.MayStop(e) {
			return
		}
		if v, ok := e.Value.(*value); ok {
			e.SetState(binary.BigEndian.AppendUint64(nil, v.turns), codegen.Reactivated)
			h.run.passivated = v.turns
			e.Value = nil
		}
		h.end("stops: " + why.String())
	}
}

// Session returns the link to a process; ok is false if that process was removed.
func (h *home) Session(to transport.Peer) (shardhost.Session, bool) {
	l := h.actor().link(to.Address)
	return l, l != nil
}

func (h *home) Departed() []transport.Address            { return nil }
func (h *home) HasDeparted(a transport.Address) bool     { return h.gone[a] }
func (h *home) Departs(transport.Address) bool           { return false }
func (h *home) MaxPayload() int                          { return 1 << 20 }
func (h *home) Learn(transport.Address, placement.Epoch) {}
func (h *home) Progress()                                { h.actor().onLoop(func() { h.control.Progress(h.shard.ID) }) }

func (h *home) Lead(e *region.Entity) { h.instance.Lead(e) }

// Drained hands off after at most 300 ms, because stop hooks take time.
func (h *home) Drained() { h.After(h.run.milliseconds(0, 300), h.instance.HandOff) }

// MoveDone makes the control plane report the handoff to other processes.
func (h *home) MoveDone(epoch placement.Epoch) {
	h.actor().onLoop(func() { h.control.MoveDone(h.shard.ID, epoch) })
}

// MoveAborted makes the control plane abort the handoff.
func (h *home) MoveAborted(epoch placement.Epoch, reason string) {
	h.run.counts.Refused++
	h.actor().onLoop(func() { h.control.MoveAborted(h.shard.ID, epoch, reason) })
}

// Exiting reports whether the process accepts no more shards.
func (h *home) Exiting() bool { return h.exiting }

func (h *home) Release()                    {}
func (h *home) Changed(bool)                {}
func (h *home) Carried() shardhost.Carried  { return shardhost.Carried{} }
func (h *home) Arrived(shardhost.Carried)   {}
func (h *home) BarrierTimedOut(region.Shut) { h.never("a barrier times out") }

// No calls go to the shard. Package sharding's simulation has calls.

func (h *home) Run(*region.Entity, *shardhost.Call)        { h.never("a call runs") }
func (h *home) Grant(*shardhost.Call, *region.Entity)      { h.never("a call runs") }
func (h *home) StopEntities([]*region.Entity, func(error)) { h.never("the shard hands off") }

func (h *home) Answer(*shardhost.Call, *wire.Envelope) { h.never("a call is answered") }

func (h *home) Forwarded(*shardhost.Call, shardhost.Session, uint64) { h.never("a call is forwarded") }

func (h *home) LoseTell(*shardhost.Call)                       { h.never("a tell is lost") }
func (h *home) Canceler(*shardhost.Call) func()                { return nil }
func (h *home) InDoubt(*shardhost.Call) func()                 { return func() { h.never("a call is in doubt") } }
func (h *home) Why(_ *shardhost.Call, v region.Verdict) string { return v.String() }

func (h *home) never(what string) { h.run.fail("%s: %s", h.self.Name, what) }

const leaseTTL = 4 * time.Second

// leases is the store's only lease. Holder and store have the same clock here. Package store
// describes how to allow for drift.
type leases struct {
	holder string
	token  uint64
	ends   time.Duration
}

var errLost = errors.New("simulated: the store does not answer")

func (s *leases) acquire(c store.Claim, now time.Duration) (store.Held, error) {
	if s.holder != "" && s.holder != c.Holder && now < s.ends {
		return store.Held{}, &store.HeldError{Holder: s.holder, Token: s.token, RetryAfter: s.ends - now}
	}
	*s = leases{c.Holder, s.token + 1, now + c.TTL}
	return store.Held{Claim: c, Token: s.token}, nil
}

func (s *leases) renew(h store.Held, now time.Duration) (store.Held, error) {
	if s.holder != h.Holder || s.token != h.Token || now >= s.ends {
		return store.Held{}, store.ErrLost
	}
	s.ends = now + h.TTL
	return h, nil
}

func (s *leases) release(h store.Held) {
	if s.holder == h.Holder && s.token == h.Token {
		s.holder = ""
	}
}

// requests sends a process's requests to the store of leases. Requests and answers may be late or
// lost.
type requests actor

var _ singlehost.Leases = (*requests)(nil)

func (q *requests) Acquire(c store.Claim, within time.Duration, done func(store.Held, error)) {
	q.ask(within, func(now time.Duration) (store.Held, error) { return q.run.store.acquire(c, now) }, func(h store.Held, err error) {
		if err == nil {
			q.run.counts.Leases++
		}
		done(h, err)
	})
}

// Renew requests an extension of the lease.
func (q *requests) Renew(h store.Held, within time.Duration, done func(store.Held, error)) (cancel func()) {
	return q.ask(within, func(now time.Duration) (store.Held, error) { return q.run.store.renew(h, now) }, func(next store.Held, err error) {
		if errors.Is(err, store.ErrLost) {
			q.run.counts.LeasesLost++
		}
		done(next, err)
	})
}

func (q *requests) Release(h store.Held, within time.Duration, done func(error)) {
	q.ask(within, func(time.Duration) (store.Held, error) {
		q.run.store.release(h)
		return h, nil
	}, func(_ store.Held, err error) { done(err) })
}

// ask makes one request. The time of a granted lease counts from the sending of the request.
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

// link carries envelopes in order from one process to another. Envelopes wait while the brokers do
// not connect the two processes. Envelopes are lost if the receiver has ended or has removed the
// sender. A link is simpler than a session: package sharding simulates real sessions.
type link struct {
	from, to *actor
	seq      uint64
	queue    []*wire.Envelope // envelopes that have not arrived
}

var _ shardhost.Session = (*link)(nil)

func (a *actor) link(to transport.Address) *link {
	other := a.run.actors[to]
	if other == nil || a.gone[to] {
		return nil
	}
	l := a.links[to]
	if l == nil {
		l = &link{from: a, to: other}
		a.links[to] = l
	}
	return l
}

// Peer returns the process at the other end.
func (l *link) Peer() transport.Peer { return l.to.self }

func (l *link) Append(e *wire.Envelope) (uint64, error) {
	if l.from.gone[l.to.self.Address] {
		return 0, peers.ErrGone
	}
	if l.to.killed {
		l.from.run.mayLose = true // the sender does not know yet that the receiver will not take it
	}
	c := *e
	c.Kind, c.Payload, c.Text = slices.Clone(e.Kind), slices.Clone(e.Payload), slices.Clone(e.Text)
	l.seq++
	l.queue = append(l.queue, &c)
	if len(l.queue) == 1 {
		l.next(l.from.run.delay())
	}
	return l.seq, nil
}

func (l *link) AppendAll(parts []*wire.Envelope) error {
	for _, e := range parts {
		if _, err := l.Append(e); err != nil {
			return err
		}
	}
	return nil
}

// Flush does nothing, because Append has sent the envelopes.
func (l *link) Flush() {}

func (l *link) next(d time.Duration) {
	l.from.run.world.After(d, func() {
		if !l.from.run.reaches(l.from, l.to) && !l.from.over() && !l.to.over() {
			l.next(pollEvery)
			return
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		if len(l.queue) > 0 {
			l.next(l.from.run.delay())
		}
		l.to.do(func() { l.arrive(e) })
	})
}

func (l *link) arrive(e *wire.Envelope) {
	back := l.to.link(l.from.self.Address)
	if back == nil {
		return // the receiver ignores messages of this process
	}
	if !l.to.shard.Step(back, e, l.to.instance.PredecessorOpened) {
		l.to.run.fail("%s: got an envelope of type %d, which is not part of a handoff", l.to.self.Name, e.Type)
	}
}
