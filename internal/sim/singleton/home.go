package singleton

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A home is a process as its shard and the instance in it use it.
type home actor

var (
	_ singlehost.Home = (*home)(nil)
	_ shardhost.Host  = (*home)(nil)
)

func (h *home) actor() *actor { return (*actor)(h) }

// Log takes a line into the trace.
func (h *home) Log(l slog.Level, text string, args ...any) {
	(*controlEnv)(h).Log(l, text, args...)
}

func (h *home) Count(shardhost.Counter)         {}
func (h *home) Context() context.Context        { return context.Background() }
func (h *home) Now() time.Time                  { return h.actor().now() }
func (h *home) Ticks() uint32                   { return 0 }
func (h *home) Elapsed() int64                  { return int64(h.run.world.Now()) }
func (h *home) After(d time.Duration, f func()) { h.actor().after(d, f) }

// Go calls f a little later.
func (h *home) Go(f func()) { h.After(h.run.milliseconds(0, 20), f) }

// A value is the entity in memory.
type value struct{ turns uint64 }

var (
	errNoTurn = errors.New("simulated: turns may not run here")
	errDies   = errors.New("simulated: it died")
)

// Activate begins an instance, which may die by itself.
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

// RunTask runs a task that ends a while after its context, or at any time by itself.
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
				d = h.run.milliseconds(0, 8000) // it does not heed its context
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

// turn runs a turn of the instance now and then, if it is here.
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

// Lost notes that the instance has died.
func (h *home) Lost(*region.Entity) {
	h.run.counts.Died++
	h.end("has died")
}

// end ends an instance. None of its tasks may be left.
func (h *home) end(how string) {
	if h.tasks > 0 {
		h.run.fail("%s: the instance %s beside %d tasks", h.self.Name, how, h.tasks)
	}
	h.active = false
	h.life++
	h.run.trace("%s: the instance %s", h.self.Name, how)
}

// EndTurn ends the turn of the instance.
func (h *home) EndTurn(e *region.Entity) {
	h.shard.LeaveTurn(e, h.Ticks())
}

// Passivate runs the stop hook.
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

// Session is the link to a process.
func (h *home) Session(to transport.Peer) (shardhost.Session, bool) {
	l := h.actor().link(to.Address)
	return l, l != nil
}

func (h *home) Departed() []transport.Address            { return nil }
func (h *home) HasDeparted(a transport.Address) bool     { return h.gone[a] }
func (h *home) MaxPayload() int                          { return 1 << 20 }
func (h *home) Learn(transport.Address, placement.Epoch) {}
func (h *home) Progress()                                { h.actor().onLoop(func() { h.control.Progress(h.shard.ID) }) }

// Lead activates the instance.
func (h *home) Lead(e *region.Entity) { h.instance.Lead(e) }

// Drained ends the instance after a while, for hooks take time.
func (h *home) Drained() { h.After(h.run.milliseconds(0, 300), h.instance.HandOff) }

// MoveDone has the control plane tell the others.
func (h *home) MoveDone(epoch placement.Epoch) {
	h.actor().onLoop(func() { h.control.MoveDone(h.shard.ID, epoch) })
}

// MoveAborted has the control plane give the handoff up.
func (h *home) MoveAborted(epoch placement.Epoch, reason string) {
	h.run.counts.Refused++
	h.actor().onLoop(func() { h.control.MoveAborted(h.shard.ID, epoch, reason) })
}

// Exiting reports whether the process takes nothing any more.
func (h *home) Exiting() bool { return h.exiting }

func (h *home) Release()                            {}
func (h *home) Changed(bool)                        {}
func (h *home) Remembered() shardhost.RememberedIDs { return shardhost.RememberedIDs{} }
func (h *home) Arrived(shardhost.RememberedIDs)     {}
func (h *home) BarrierTimedOut(region.Shut)         { h.never("a barrier times out") }

// Nobody sends calls to the shard: package sharding's simulation has those.

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
