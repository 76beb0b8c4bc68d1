package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
)

// inspections answer the questions of operators about a node.
type inspections struct{ node *Node }

// explainTimeout bounds how long the coordinator's reason for a home is waited for. It is below
// the time that an operator waits for an answer.
const explainTimeout = 2 * time.Second

// answer carries out a request. It runs outside the control loop.
func (i inspections) answer(ctx context.Context, r *operator.Request) (a operator.Answer, err error) {
	switch r.Command {
	case operator.Shards:
		a.Types = i.types(r.Entity.Kind)
	case operator.Where:
		a.Place, err = i.where(ctx, r.Entity.Kind, r.Entity.ID)
	case operator.Counters:
		a.Counters = i.node.Counters()
	default:
		a.Entities, err = repairs(i).states(r)
	}
	return a, err
}

// types returns the shards of a type, or of all if kind is "", as this node has them.
func (i inspections) types(kind string) []operator.Type {
	table := i.node.driver.table.Load()
	names := table.Kinds()
	for name := range *i.node.driver.kinds.Load() {
		names = append(names, name)
	}
	slices.Sort(names)
	var types []operator.Type
	for _, name := range slices.Compact(names) {
		if kind != "" && name != kind {
			continue
		}
		t := operator.Type{Kind: name, Waiting: uint32(i.node.driver.heldFor(name))}
		if k := table.Kind(name); k != nil {
			t.Shards = k.Shards()
			for number := t.Shards; number < 2*t.Shards; number++ {
				if e, ok := k.Lookup(number); !ok || e.Owner.IsZero() {
					t.Homeless = append(t.Homeless, number)
				}
			}
		}
		for _, h := range i.node.held(name) {
			t.Held = append(t.Held, operator.Shard{Shard: h.Shard, State: h.State.String(), Entities: h.Entities, Active: h.Active, Waiting: h.Waiting})
		}
		types = append(types, t)
	}
	return types
}

// where returns the home of an entity. Where the coordinator does not say why, that is the
// reason given.
func (i inspections) where(ctx context.Context, kind, id string) (operator.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	at, err := i.node.Locate(ctx, kind, id)
	if err != nil && ctx.Err() != nil {
		at.Why, err = fmt.Sprintf("unknown: the coordinator has not answered within %v", explainTimeout), nil
	}
	return operator.Place{Shard: at.Shard, Node: at.Node, Epoch: at.Epoch, Why: at.Why}, err
}
