package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/region"
)

// runTurn runs a remote call's turn on the lane's goroutine. It reports whether
// this goroutine still has the lane afterwards.
func (l *lane) runTurn(sh *hostedShard, e *region.Entity, c *inCall) bool {
	run := l.enter()
	answer := sh.guarded(e, c, &run)
	kept := run.leave()
	mine := l
	if !kept {
		mine = nil
	}
	sh.endTurn(e)
	if answer != nil {
		sh.plane().answer(c, answer, mine)
	}
	return kept
}

// runQueued runs the turn of a call that waited, on a goroutine of its own.
func (s *hostedShard) runQueued(e *region.Entity, c *inCall) {
	answer := s.guarded(e, c, nil)
	s.endTurn(e)
	if answer != nil {
		s.plane().answer(c, answer, nil)
	}
}

// guarded is turn that survives a method calling runtime.Goexit, which ends this
// goroutine: the lane, the entity and the caller must not wait for it.
func (s *hostedShard) guarded(e *region.Entity, c *inCall, run *laneRun) (answer *wire.Envelope) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if run != nil {
			run.handOver()
		}
		s.endTurn(e)
		s.plane().answerCode(c, wire.CodePanic, "runtime.Goexit")
	}()
	answer = s.turn(e, c, run)
	returned = true
	return answer
}

// endTurn gives the entity to the next call.
func (s *hostedShard) endTurn(e *region.Entity) {
	pl := s.plane()
	s.mu.Lock()
	next, drained := s.core.End(e, pl.clock.Load())
	s.mu.Unlock()
	if next != nil {
		s.start(region.Start{Entity: e, Call: next})
	}
	if drained {
		pl.wg.Go(s.handOff)
	}
}

// turn runs one encoded call on its entity and returns the answer; nil for a tell.
func (s *hostedShard) turn(e *region.Entity, c *inCall, run *laneRun) *wire.Envelope {
	pl := s.plane()
	t := &turn{shard: s, entity: e, method: "", remote: &remoteTurn{deadline: c.deadline, chain: c.chain, lane: run}}
	c.turn.Store(t)
	defer t.finish()
	if !pl.lease.valid() {
		t.yieldLane()
		if err := pl.waitLease(t); err != nil {
			return c.answer(wire.CodeExpired, "the host lost contact with the cluster")
		}
	}
	if !c.deadline.IsZero() && time.Now().After(c.deadline) {
		pl.ledger.add(callExpired)
		return c.answer(wire.CodeExpired, "")
	}
	method, ok := s.host.desc.Dispatch[string(c.method)]
	if !ok {
		return c.answer(wire.CodeNoMethod, string(c.method))
	}
	if e.Value == nil {
		if err := s.wake(t, e); err != nil {
			pl.log.Error("activation failed", "kind", s.id.Kind, "entity", clip(e.ID), "err", err)
			return c.answer(wire.CodeActivation, err.Error())
		}
	}
	out, err := s.invoke(method, t, e.Value, c.args)
	return s.outcome(c, out, err)
}

// finish ends the turn's context.
func (t *turn) finish() {
	t.ended.Store(true)
	if r := t.remote; r != nil {
		r.mu.Lock()
		if r.cancel != nil {
			r.cancel()
		}
		r.mu.Unlock()
	}
}

// panicked is a method's panic on its way to the caller.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprint(p.value) }

// invoke runs the method and turns a panic into an error.
func (s *hostedShard) invoke(m codegen.Method, t *turn, entity any, args []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logPanic(t.entity.ID, r)
			out, err = nil, &panicked{r}
		}
	}()
	return m(t, entity, args, nil)
}

func (s *hostedShard) logPanic(entity string, r any) {
	s.plane().log.Error("panic in an entity's turn", "kind", s.id.Kind, "entity", clip(entity),
		"panic", r, "stack", string(debug.Stack()))
}

// outcome is the answer for what the method returned.
func (s *hostedShard) outcome(c *inCall, out []byte, err error) *wire.Envelope {
	var decode *codegen.DecodeError
	var panicked *panicked
	switch {
	case err == nil:
		if limit := s.plane().link().MaxPayload() - wire.MaxFrameHeader - wire.Overhead; len(out) > limit {
			return c.answer(wire.CodeTooLarge, fmt.Sprintf("%d bytes of results, at most %d", len(out), limit))
		}
		e := c.answer(wire.CodeOK, "")
		if e != nil {
			e.Payload = out
		}
		return e
	case errors.As(err, &panicked):
		return c.answer(wire.CodePanic, panicked.Error())
	case errors.As(err, &decode):
		return c.answer(wire.CodeBadArgs, err.Error())
	}
	return c.answer(wire.CodeMethodError, err.Error())
}

// answer is the reply to a call; nil for a tell.
func (c *inCall) answer(code wire.Code, text string) *wire.Envelope {
	if c.id == 0 {
		return nil
	}
	if len(text) > 64<<10 {
		text = text[:64<<10]
	}
	return &wire.Envelope{Type: wire.TypeReply, ID: c.id, Code: code, Text: []byte(text)}
}

func panicError(what string, r any) error { return fmt.Errorf("%w in %s: %v", ErrPanic, what, r) }

// begin starts a turn of a local caller on its own goroutine.
func (s *hostedShard) begin(ctx context.Context, up *turn, e *region.Entity, method string) (codegen.Call, error) {
	t := &turn{parent: ctx, shard: s, entity: e, method: method, up: up}
	if up != nil {
		t.depth = up.depth + 1
	}
	if e.Value == nil || !s.plane().lease.valid() {
		if err := s.prepareTurn(t); err != nil {
			t.ended.Store(true)
			s.endTurn(e)
			return codegen.Call{}, err
		}
	}
	return codegen.Call{Context: t, Entity: e.Value, Turn: t}, nil
}

// prepareTurn does what a turn seldom needs: wait for the lease, activate.
func (s *hostedShard) prepareTurn(t *turn) error {
	t.yieldLane()
	if err := s.plane().waitLease(t.parent); err != nil {
		return s.notRun(t.entity.ID, t.method, err)
	}
	if t.entity.Value != nil {
		return nil
	}
	if err := s.wake(t, t.entity); err != nil {
		return s.notRun(t.entity.ID, t.method, fmt.Errorf("%w: %w", ErrActivation, err))
	}
	return nil
}

func (s *hostedShard) notRun(id, method string, err error) error {
	return &CallError{Kind: s.id.Kind, ID: id, Method: method, Outcome: NotExecuted, Err: err}
}

// End ends a local caller's turn and returns the error that the caller gets: the
// same as a remote one would.
func (t *turn) End(recovered any, err error) error {
	s, e := t.shard, t.entity
	t.ended.Store(true)
	s.endTurn(e)
	if recovered != nil {
		s.logPanic(e.ID, recovered)
		return &EntityError{Kind: s.id.Kind, ID: e.ID, Method: t.method, Text: fmt.Sprint(recovered), Panic: true}
	}
	if err != nil {
		return &EntityError{Kind: s.id.Kind, ID: e.ID, Method: t.method, Text: err.Error()}
	}
	return nil
}
