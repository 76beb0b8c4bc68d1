package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/placement"
)

// repairs shows and replaces states of entities of a node.
type repairs struct{ node *Node }

// states serves an operator's requests about the states of entities of this node. It runs
// outside the control loop, because it may wait for their decoders.
func (p repairs) states(r *operator.Request) (found []operator.Entity, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, panicError("reading the state", r)
		}
	}()
	h, err := p.hostOf(r.Entity.Kind, r.Command != operator.Inspect || r.Entity.ID == "")
	if err != nil {
		return nil, err
	}
	if r.Entity.ID != "" {
		one, err := p.one(h, r)
		if err == nil && one.Node == p.node.driver.self.Address {
			one.Errors = p.node.driver.failures.Of(operator.EntityID{Kind: one.Kind, ID: one.ID}, time.Now())
		}
		return []operator.Entity{one}, err
	}
	for _, id := range h.unreadable.all() {
		one, err := p.one(h, &operator.Request{Command: operator.Inspect, Entity: operator.Entity{Kind: r.Entity.Kind, ID: id}})
		if err == nil && one.Turn != nil {
			continue
		}
		if err == nil && one.Why != "" {
			found = append(found, one)
		} else if err == nil {
			h.unreadable.remove(id) // it has moved, or was repaired
		}
	}
	return found, nil
}

// hostOf returns the host of a type that has shards. With state the type must have a state, too.
func (p repairs) hostOf(kind string, state bool) (*host, error) {
	k := (*p.node.driver.kinds.Load())[kind]
	switch {
	case k == nil || k.host == nil:
		return nil, fmt.Errorf("this node does not host %s", clip(kind))
	case k.host.desc.Singleton:
		return nil, fmt.Errorf("%s is a singleton, which has no shards (shardctl members shows where it runs)", clip(kind))
	case state && k.host.desc.DecodeState == nil:
		return nil, fmt.Errorf("%s has no state", clip(kind))
	}
	return k.host, nil
}

// one describes one entity, and shows or replaces its state. An entity with a turn under way is
// described by that turn.
func (p repairs) one(h *host, r *operator.Request) (operator.Entity, error) {
	at := operator.Entity{Kind: r.Entity.Kind, ID: r.Entity.ID}
	number, err := h.kind.shardOf(at.ID)
	if err != nil {
		return at, err
	}
	s := p.node.hostedShard(placement.ShardID{Kind: at.Kind, Shard: number})
	if s == nil {
		return at, errors.New("no such shard")
	}
	e, open := p.take(s, &at)
	switch {
	case e != nil:
	case open && r.Command == operator.SetState:
		return at, errors.New("a call of it is under way (try again)")
	case open:
		at.Node = p.node.driver.self.Address
		p.sinceWhen(&at)
		return at, nil
	default:
		entry, ok := p.node.driver.table.Load().Type(at.Kind).Lookup(number)
		if !ok || entry.Home.IsZero() || entry.Home == p.node.driver.self.Address {
			return at, errors.New("its shard is moving (try again)")
		}
		at.Node = entry.Home
		return at, nil
	}
	defer s.endTurn(e)
	at.Node, at.Active = p.node.driver.self.Address, e.Value != nil
	if r.Command == operator.SetState {
		return at, setState(s, e, r.Entity.State)
	}
	if h.desc.DecodeState == nil {
		return at, nil
	}
	if e.Value == nil && s.durable != nil {
		p.showStored(s, e, &at)
	} else {
		err = showState(s, e, &at)
	}
	if at.Bytes = uint64(len(at.State)); r.Command == operator.Inspect {
		at.State, at.JSON = nil, ""
	}
	return at, err
}

// Entities with many calls are idle for moments only, so take looks this often, and this long apart.
const (
	takeTries = 50
	takeApart = 2 * time.Millisecond
)

// take begins a turn of an entity. If one is under way each time it looks, it describes that one. It
// reports whether the shard is open here.
func (p repairs) take(s *hostedShard, at *operator.Entity) (e *region.Entity, open bool) {
	drv := p.node.driver
	for try := 1; ; try++ {
		s.Mu.Lock()
		open = s.Core.State() == region.Open
		if open {
			if e = s.Core.Take(at.ID, drv.clock.Load()); e == nil && try == takeTries {
				busyWith(s, at)
			}
		}
		s.Mu.Unlock()
		if e != nil || !open || try == takeTries {
			return e, open
		}
		select {
		case <-time.After(takeApart):
		case <-drv.stop:
		}
	}
}

// busyWith describes the turn of an entity that is not idle. The caller has the shard's lock.
func busyWith(s *hostedShard, at *operator.Entity) {
	at.Turn = &operator.RunningTurn{Turn: operator.Turn{EntityID: operator.EntityID{Kind: at.Kind, ID: at.ID}, Method: "?", From: "this member"}, Earlier: true}
	e := s.Core.Look(region.Hash(at.ID), at.ID)
	if e == nil {
		return
	}
	at.Active, at.Mailbox = true, uint32(e.Mailbox())
	at.Turn.Turn = turnOfEntity(s, e)
}

// sinceWhen adds for how long the turn has been under way. Turns are timed only while operators look,
// and this looks.
func (p repairs) sinceWhen(at *operator.Entity) {
	report := operator.ReportTurns(&p.node.driver.turns, turnsUnderWay(p.node.hosted()), time.Now())
	for _, r := range report.Running {
		if r.EntityID == at.Turn.EntityID {
			at.Turn = &r
		}
	}
}

// showState returns the state of an entity whose turn the caller has.
func showState(s *hostedShard, e *region.Entity, to *operator.Entity) (err error) {
	if e.Value != nil {
		to.State, err = s.host.encodeState(e)
		to.JSON = stateJSON(e.Value)
		return err
	}
	if to.State = slices.Clone(e.State()); e.State() != nil {
		value := s.host.desc.New()
		if _, err := s.host.decodeState(value, e.State()); err != nil {
			to.Why = err.Error()
			return nil
		}
		to.JSON = stateJSON(value)
	}
	return nil
}

// showStored returns the state of a passivated durable entity, whose turn the caller has, from the store. A
// state that cannot be read has a reason.
func (p repairs) showStored(s *hostedShard, e *region.Entity, to *operator.Entity) {
	ctx, cancel := context.WithTimeout(p.node.driver.ctx, explainTimeout)
	defer cancel()
	state, err := storedState(ctx, s.durable.Shard, &s.host.desc, e.ID)
	to.State, to.Stored = state, state != nil || unreadableState(err)
	value := s.host.desc.New()
	if err == nil && state != nil {
		_, err = s.host.decodeState(value, state)
	}
	switch {
	case err != nil:
		to.Why = err.Error()
	case state != nil:
		to.JSON = stateJSON(value)
	}
}

// setState replaces the state of an entity whose turn the caller has.
func setState(s *hostedShard, e *region.Entity, state []byte) error {
	if e.Value != nil {
		return errors.New("it is active, so its state can be read (call it to change it)")
	}
	if s.durable != nil {
		return errors.New("it is durable, and its state is in the store (shardctl store repair replaces or drops one that cannot be read)")
	}
	if !s.mayRun() {
		return errors.New("its shard may have moved to another node (try again)")
	}
	if state != nil {
		if _, err := s.host.decodeState(s.host.desc.New(), state); err != nil {
			return fmt.Errorf("the new state cannot be read either: %w", err)
		}
	}
	before := len(e.State())
	e.SetState(state, e.Why())
	s.host.unreadable.remove(e.ID)
	s.driver().log.Warn("state set by an operator", "kind", s.ID.Kind, "entity", clip(e.ID), "bytes", len(state), "before", before, "dropped", state == nil)
	return nil
}
