package node

import (
	"fmt"
	"iter"
	"strings"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/ops/operator"
)

// TurnsUnderWay lists a node's running turns for an operator who begins to watch. It is needed
// because turns are recorded only while somebody watches.
type TurnsUnderWay []*Host

// UnderWay calls found for each entity that has a turn, in the shards held here.
func (u TurnsUnderWay) UnderWay(found func(key any, t operator.Turn)) {
	for s := range u.shards() {
		if _, held := s.Held(); !held {
			continue
		}
		s.Mu.Lock()
		for e := range s.Core.UnderWay() {
			found(e, turnOfEntity(s, e))
		}
		s.Mu.Unlock()
	}
}

func (u TurnsUnderWay) shards() iter.Seq[*HostedShard] {
	return func(yield func(*HostedShard) bool) {
		for _, h := range u {
			for i := range h.Shards {
				if !yield(&h.Shards[i]) {
					return
				}
			}
		}
	}
}

const toldTurns = 5

// String names some of the running turns, for a log line. It includes turns whose shards the node
// has lost.
func (u TurnsUnderWay) String() string {
	var names []string
	count := 0
	for s := range u.shards() {
		s.Mu.Lock()
		name := func(e *region.Entity) {
			if count++; count <= toldTurns {
				t := turnOfEntity(s, e)
				names = append(names, t.Kind+"/"+clip(t.ID)+"."+clip(t.Method))
			}
		}
		for e := range s.Core.UnderWay() {
			name(e)
		}
		for _, e := range s.Core.Orphans() {
			name(e)
		}
		s.Mu.Unlock()
	}
	if count > toldTurns {
		names = append(names, fmt.Sprintf("and %d more", count-toldTurns))
	}
	return strings.Join(names, ", ")
}

func turnOfEntity(s *HostedShard, e *region.Entity) operator.Turn {
	if c := e.Turn(); c != nil && !c.Local { // else it is a local call's, or began without the lock
		return Inbound(c).described(e).turn.described()
	}
	return operator.Turn{EntityID: operator.EntityID{Kind: s.ID.Kind, ID: strings.Clone(e.ID)}, Method: "?", From: "this member"}
}

// Has reports whether the entity has a turn.
func (TurnsUnderWay) Has(key any) bool { return key.(*region.Entity).Busy() }
