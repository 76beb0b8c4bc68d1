package node

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/ops/operator"
)

// TurnsUnderWay lists a node's running turns.
type TurnsUnderWay []*Host

// Running returns the turns that run in the shards held here, in no particular order. It examines
// every entity.
func (u TurnsUnderWay) Running() (all []operator.RunningTurn) {
	for s := range u.shards() {
		if _, held := s.Held(); !held {
			continue
		}
		s.Mu.Lock()
		for e := range s.Core.UnderWay() {
			all = append(all, runningTurn(s, e))
		}
		s.Mu.Unlock()
	}
	return all
}

// runningTurn describes the turn of an entity. The caller has the shard's lock.
func runningTurn(s *HostedShard, e *region.Entity) operator.RunningTurn {
	_, since := e.Note()
	return operator.RunningTurn{Turn: turnOfEntity(s, e), For: time.Duration(int32(s.driver().Clock.Load()-since)) * ClockTick}
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
		return Inbound(c).described(e)
	}
	method := "?" // a tell, or work of the runtime itself
	if note, _ := e.Note(); note != 0 {
		method = s.Host.Kind.Counts.Name(int(note))
	}
	return s.described(e, method)
}
