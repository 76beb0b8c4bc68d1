package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/ops/verdict"
)

// Writes describes the failing or slow writes of a durable type's shards. ok is false if no writes
// fail or are slow.
func (h *Host) Writes(now time.Time) (all verdict.Writes, ok bool) {
	if !h.Desc.Durable {
		return all, false
	}
	h.eachShard(-1, func(s *HostedShard) {
		w, bad := s.Durable.Writes(now)
		if !bad {
			return
		}
		all.Shards++
		if all.Since.IsZero() || w.Since.Before(all.Since) {
			all.Since = w.Since
		}
		if w.Err != nil {
			all.Err = w.Err
		}
		all.Took = max(all.Took, w.Took)
	})
	all.Kind = h.Desc.Name
	return all, all.Shards > 0
}

// longTurn is how long an entity must have ended no turn before Long lists its running turn, in
// ticks of the coarse clock.
const longTurn = 2 * TicksASecond

// Long lists the running turns of entities that have ended no turn for longTurn. It examines every
// entity. now is the present time, and clock the coarse clock at that time.
func (u TurnsUnderWay) Long(clock uint32, now time.Time) (all []verdict.Turn) {
	for s := range u.shards() {
		if _, held := s.Held(); !held {
			continue
		}
		s.Mu.Lock()
		list := func(e *region.Entity) {
			used := e.Used()
			if clock-used < longTurn {
				return
			}
			t := verdict.Turn{Turn: turnOfEntity(s, e), Number: used, Waiting: e.Mailbox()}
			if note, since := e.Note(); note != 0 { // else its begin is not known
				t.Since = now.Add(-time.Duration(clock-since) * ClockTick)
			}
			all = append(all, t)
		}
		for e := range s.Core.UnderWay() {
			list(e)
		}
		s.Mu.Unlock()
	}
	return all
}
