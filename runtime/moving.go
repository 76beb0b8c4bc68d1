package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// errEncodeExits: a method that encodes state ended its goroutine.
var errEncodeExits = fmt.Errorf("encode the state: %w: runtime.Goexit", ErrPanic)

// leaveTries is how often a leaving node tries to give a shard away whose state does not
// encode, before it leaves the state of such entities behind.
const leaveTries = 3

// mustGo reports whether the shard is to be given away even without states that do not encode.
func (s *hostedShard) mustGo() bool { return s.plane().leaving.Load() && s.unsent >= leaveTries-1 }

// cannotMove notes that the state of the shard does not encode, so that it stays.
func (s *hostedShard) cannotMove(why error) {
	if s.unsent++; s.unsent&(s.unsent-1) == 0 { // seldom, for it is tried again
		s.plane().log.Error("shard cannot move: the state of an entity does not encode", "err", why, "tries", s.unsent)
	}
}

// restAll encodes the entities that the core has stopped for a move, runs their stop
// hooks. It ends early when the move is given up, for then others may have turns. An entity
// whose state does not encode is an error, and then no hook has run; unless the shard must
// go, without that entity's state.
func (s *hostedShard) restAll(entities []*region.Entity, why codegen.Passivation, must bool) error {
	states := make([][]byte, len(entities))
	for i, e := range entities {
		if !s.MayStop(e) {
			return nil
		}
		var err error
		if states[i], err = s.encodeState(e); err == nil || s.host.settings.handoff.DropState {
			continue
		}
		err = fmt.Errorf("encode the state of %s/%s: %w (mend what its encoder refuses)", s.ID.Kind, clip(e.ID), err)
		if !must {
			return err
		}
		s.plane().counters.add(stateLost)
		s.plane().log.Error("state lost: its node leaves and it does not encode", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err)
	}
	s.unsent = 0
	for i, e := range entities {
		if !s.MayStop(e) {
			return nil
		}
		state, err := s.hookAndEncode(e, why, states[i])
		s.retire(e, why, state, err)
	}
	return nil
}

// rest runs the stop hook of an entity and keeps its state encoded. The caller has its
// turn. An idle entity whose state cannot be encoded stays active; one that must go loses
// its changes since it was last encoded, and that is logged.
func (s *hostedShard) rest(e *region.Entity, why codegen.Passivation) {
	state, err := s.encodeState(e)
	if err == nil {
		state, err = s.hookAndEncode(e, why, state)
	}
	s.settle(e, why, state, err)
}

// settle puts an entity to rest whose hook has run, with that encoded state; err is the
// failure of encoding. One that is idle stays active then, unless its hook goes on.
func (s *hostedShard) settle(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil && why == codegen.Idle && !errors.Is(err, errHookStuck) {
		s.passivationFailed(e, why, err)
		return
	}
	s.retire(e, why, state, err)
}

// hookAndEncode runs the stop hook of an entity that was encoded as state, and returns
// the state as the hook left it. If either fails, that is the state from before the hook.
func (s *hostedShard) hookAndEncode(e *region.Entity, why codegen.Passivation, state []byte) ([]byte, error) {
	if s.host.desc.Passivate == nil {
		return state, nil
	}
	if err := s.stopHook(e, why); err != nil {
		return state, err
	}
	after, err := s.encodeState(e)
	if err != nil {
		return state, err
	}
	return after, nil
}

func (s *hostedShard) passivationFailed(e *region.Entity, why codegen.Passivation, err error) {
	pl := s.plane()
	pl.seldom.error(pl.log, "passivation failed", s.ID.Kind, why.String(),
		"kind", s.ID.Kind, "entity", clip(e.ID), "why", why.String(), "err", err)
}

// retire puts an entity to rest whose hook has run, with that encoded state; err is an
// earlier failure.
func (s *hostedShard) retire(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil {
		s.passivationFailed(e, why, err)
	}
	if s.durable != nil {
		state = s.durable.retire(e, state, err)
	}
	s.host.lost(e)
	e.Value, e.State = nil, state
	if why == codegen.Idle {
		s.forgetRested(e)
	}
	s.plane().counters.add(entityPassivated)
}

// encodeState encodes the state of an active entity, with the fields that its program
// does not know. It returns nil for a type without state. The caller has the entity's
// turn.
func (s *hostedShard) encodeState(e *region.Entity) (state []byte, err error) {
	return s.appendState([]byte{}, e)
}

// appendState is encodeState into a buffer. It does not use the buffer for a type that
// has no encoder.
func (s *hostedShard) appendState(b []byte, e *region.Entity) (state []byte, err error) {
	h := &s.host.desc
	if h.AppendState == nil {
		return e.State, nil
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, panicError("encoding the state", r)
		}
	}()
	if state, err = h.AppendState(b, e.Value); err != nil {
		return nil, err
	}
	return codegen.AppendUnknown(state, e.State, h.StateFields), nil
}

// decodeState decodes an entity's state into its value. It returns the fields that this
// program does not know, mostly nil: they stay with the entity while it is active, and
// are written back.
func (s *hostedShard) decodeState(value any, state []byte) (unknown []byte, err error) {
	h := &s.host.desc
	if h.DecodeState == nil {
		if len(state) == 0 {
			return nil, nil
		}
		return state, nil // an older program's type has no state at all
	}
	defer func() {
		if r := recover(); r != nil {
			unknown, err = nil, panicError("decoding the state", r)
		}
	}()
	skipped, err := h.DecodeState(value, state)
	if err != nil || !skipped {
		return nil, err
	}
	return codegen.UnknownFields(state, h.StateFields), nil
}

// wake brings an entity to life at the start of a turn.
func (s *hostedShard) wake(ctx context.Context, e *region.Entity) (err error) {
	h := s.host
	defer func() {
		if r := recover(); r != nil {
			e.Value, err = nil, panicError("OnActivate or the factory", r)
		}
	}()
	why := e.Why
	if e.State == nil {
		why = codegen.Fresh
	}
	value := h.desc.New()
	if h.desc.SetID != nil {
		if err := h.desc.SetID(value, e.ID); err != nil {
			return err
		}
	}
	var unknown []byte
	if e.State != nil {
		if unknown, err = s.decodeState(value, e.State); err != nil {
			h.unreadable.add(e.ID)
			return errUnreadable(s.ID.Kind, e.ID, err)
		}
	}
	if s.durable != nil {
		if err := s.durable.begin(e, value, unknown); err != nil {
			return err
		}
	}
	if h.desc.Activate != nil {
		if err := h.desc.Activate(ctx, value, why); err != nil {
			return err
		}
	}
	e.Value, e.State, e.Why = value, unknown, codegen.Reactivated
	h.woke()
	return nil
}
