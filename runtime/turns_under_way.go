package shard

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/turnwatch"
)

// turnsUnderWay lists the turns under way of a node's shards, for an operator's first look: they
// began before turns were counted.
type turnsUnderWay []*host

// UnderWay visits the entities that have a turn, in the shards held here.
func (u turnsUnderWay) UnderWay(found func(key any, t turnwatch.Turn)) {
	for _, h := range u {
		for i := range h.shards {
			s := &h.shards[i]
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
}

// toldTurns is how many turns a log line names.
const toldTurns = 5

// String names some of the turns, for a log line.
func (u turnsUnderWay) String() string {
	var names []string
	more := 0
	u.UnderWay(func(_ any, t turnwatch.Turn) {
		if len(names) == toldTurns {
			more++
			return
		}
		names = append(names, t.Kind+"/"+clip(t.ID)+"."+clip(t.Method))
	})
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// turnOfEntity describes the turn of an entity that is not idle. The caller has the shard's lock.
func turnOfEntity(s *hostedShard, e *region.Entity) turnwatch.Turn {
	if c := e.Turn(); c != nil && !c.Local { // else it is a local call's, or began without the lock
		return inbound(c).described(e).turn.described()
	}
	return turnwatch.Turn{Entity: turnwatch.Entity{Kind: s.ID.Kind, ID: strings.Clone(e.ID)}, Method: "?", From: "this member"}
}

// Has reports whether the entity has a turn.
func (turnsUnderWay) Has(key any) bool { return key.(*region.Entity).Busy() }
