package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/placement"
)

type repairs struct{ node *Node }

// states serves an operator's requests about states. It runs outside the control loop: users'
// decoders may take long.
func (p repairs) states(r *operator.Request) (found []operator.Entity, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, node.PanicError("reading the state", r)
		}
	}()
	stateless := r.Command == operator.Inspect || r.Command == operator.Passivate
	h, err := p.hostOf(r.Entity.Kind, !stateless || r.Entity.ID == "")
	if err != nil {
		return nil, err
	}
	if r.Entity.ID != "" {
		one, err := p.one(h, r)
		if err == nil && one.Node == p.node.driver.Local.Address {
			one.Errors = p.node.driver.Failures.Of(operator.EntityID{Kind: one.Kind, ID: one.ID}, time.Now())
		}
		return []operator.Entity{one}, err
	}
	for _, id := range h.Unreadable.All() {
		one, err := p.one(h, &operator.Request{Command: operator.Inspect, Entity: operator.Entity{Kind: r.Entity.Kind, ID: id}})
		if err == nil && one.Turn != nil {
			continue
		}
		if err == nil && one.Why != "" {
			found = append(found, one)
		} else if err == nil {
			h.Unreadable.Remove(id) // the entity has moved, or was repaired
		}
	}
	return found, nil
}

// hostOf returns the host of a type. It fails for a singleton and, if state is set, for a type
// without state.
func (p repairs) hostOf(kind string, state bool) (*node.Host, error) {
	k := (*p.node.driver.Kinds.Load())[kind]
	switch {
	case k == nil || k.Host == nil:
		return nil, fmt.Errorf("this node does not host %s", clip(kind))
	case k.Host.Desc.Singleton:
		return nil, fmt.Errorf("%s is a singleton, whose one shard this command does not show (shardctl members shows where it runs)", clip(kind))
	case state && k.Host.Desc.DecodeState == nil:
		return nil, fmt.Errorf("%s has no state", clip(kind))
	}
	return k.Host, nil
}

func (p repairs) one(h *node.Host, r *operator.Request) (operator.Entity, error) {
	at := operator.Entity{Kind: r.Entity.Kind, ID: r.Entity.ID}
	number, err := h.Kind.ShardOf(at.ID)
	if err != nil {
		return at, err
	}
	s := p.node.hostedShard(placement.ShardID{Kind: at.Kind, Shard: number})
	if s == nil {
		return at, errors.New("this node has no such shard of the type")
	}
	e, open := p.take(s, &at)
	switch {
	case e != nil:
	case open && (r.Command == operator.SetState || r.Command == operator.Passivate):
		return at, errors.New("a call of the entity is under way (try again)")
	case open:
		at.Node = p.node.driver.Local.Address
		return at, nil
	default:
		entry, ok := p.node.driver.ShardTable.Load().Type(at.Kind).Lookup(number)
		if !ok || entry.Home.IsZero() || entry.Home == p.node.driver.Local.Address {
			return at, errors.New("the entity's shard is moving (try again)")
		}
		at.Node = entry.Home
		return at, nil
	}
	defer s.FinishTurn(e)
	at.Node, at.Active = p.node.driver.Local.Address, e.Value != nil
	if r.Command == operator.SetState {
		return at, node.SetState(s, e, r.Entity.State)
	}
	if r.Command == operator.Passivate {
		return at, node.PassivateNow(s, e)
	}
	if h.Desc.DecodeState == nil {
		return at, nil
	}
	if e.Value == nil && s.Durable != nil {
		p.showStored(s, e, &at)
	} else {
		err = node.ShowState(s, e, &at)
	}
	if at.Bytes = uint64(len(at.State)); r.Command == operator.Inspect {
		at.State, at.JSON = nil, ""
	}
	return at, err
}

// take begins a turn of entity at.ID. If a turn runs at every try, e is nil and at describes that
// turn. open reports whether the shard is open here.
func (p repairs) take(s *node.HostedShard, at *operator.Entity) (e *region.Entity, open bool) {
	drv := p.node.driver
	for try := 1; ; try++ {
		s.Mu.Lock()
		open = s.Core.State() == region.Open
		if open {
			if e = s.Core.Take(at.ID, drv.Clock.Load()); e == nil && try == node.TakeTries {
				node.BusyWith(s, at)
			}
		}
		s.Mu.Unlock()
		if e != nil || !open || try == node.TakeTries {
			return e, open
		}
		select {
		case <-time.After(node.TakeApart):
		case <-drv.Stop:
		}
	}
}

// showStored writes the stored state into to, or the reason why it cannot be read. The caller holds
// the entity's turn.
func (p repairs) showStored(s *node.HostedShard, e *region.Entity, to *operator.Entity) {
	ctx, cancel := context.WithTimeout(p.node.driver.Context, explainTimeout)
	defer cancel()
	state, err := node.StoredState(ctx, s.Durable.Shard, &s.Host.Desc, e.ID)
	to.State, to.Stored = state, state != nil || node.UnreadableState(err)
	value := s.Host.Desc.New()
	if err == nil && state != nil {
		_, err = s.Host.DecodeState(value, state)
	}
	switch {
	case err != nil:
		to.Why = err.Error()
	case state != nil:
		to.JSON = node.StateJSON(value)
	}
}
