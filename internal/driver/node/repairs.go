package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// An entity with many calls is idle only for moments. So an operator's request tries to take the
// entity's turn TakeTries times, with pauses of TakeApart.
const (
	TakeTries = 50
	TakeApart = 2 * time.Millisecond
)

// BusyWith describes the turn of an entity that is not idle. The caller has the shard's lock.
func BusyWith(s *HostedShard, at *operator.Entity) {
	at.Turn = &operator.RunningTurn{Turn: operator.Turn{EntityID: operator.EntityID{Kind: at.Kind, ID: at.ID}, Method: "?", From: "this member"}}
	e := s.Core.Look(region.Hash(at.ID), at.ID)
	if e == nil {
		return
	}
	at.Active, at.Mailbox = true, uint32(e.Mailbox())
	*at.Turn = runningTurn(s, e)
}

// ShowState adds the state of e to the description to. The caller has the entity's turn.
func ShowState(s *HostedShard, e *region.Entity, to *operator.Entity) (err error) {
	if e.Value != nil {
		to.State, err = s.Host.encodeState(e)
		to.JSON = StateJSON(e.Value)
		return err
	}
	if to.State = slices.Clone(e.State()); e.State() != nil {
		value := s.Host.Desc.New()
		if _, err := s.Host.DecodeState(value, e.State()); err != nil {
			to.Why = err.Error()
			return nil
		}
		to.JSON = StateJSON(value)
	}
	return nil
}

// PassivateNow passivates an active entity, whose turn the caller has. It runs the stop hook.
func PassivateNow(s *HostedShard, e *region.Entity) error {
	switch {
	case e.Value == nil:
		return errors.New("the entity is not active")
	case !s.mayRun():
		return errors.New("the entity's shard may have moved to another node (try again)")
	}
	s.passivate(e, codegen.Idle)
	if e.Value != nil {
		return errors.New("the entity stays active, because its state cannot be encoded (the log of its node has the reason)")
	}
	s.driver().Logger.Warn("entity passivated by an operator", "kind", s.ID.Kind, "entity", clip(e.ID))
	return nil
}

// SetState replaces the state of an inactive entity. The caller has the entity's turn.
func SetState(s *HostedShard, e *region.Entity, state []byte) error {
	if e.Value != nil {
		return errors.New("the entity is active, so its state cannot be replaced (call a method to change it)")
	}
	if s.Durable != nil {
		return errors.New("the entity is durable, so its state is in the store (shardctl store repair replaces or drops a state that cannot be read)")
	}
	if !s.mayRun() {
		return errors.New("the entity's shard may have moved to another node (try again)")
	}
	if state != nil {
		if _, err := s.Host.DecodeState(s.Host.Desc.New(), state); err != nil {
			return fmt.Errorf("the new state cannot be read either: %w", err)
		}
	}
	before := len(e.State())
	e.SetState(state, e.Why())
	s.Host.Unreadable.Remove(e.ID)
	s.driver().Logger.Warn("state set by an operator", "kind", s.ID.Kind, "entity", clip(e.ID), "bytes", len(state), "before", before, "dropped", state == nil)
	return nil
}
