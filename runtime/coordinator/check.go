package coordinator

import (
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/runtime/placement"
)

// Check tests the invariants of the coordinator between two steps:
//
//  1. the table shows the coordinator's belief of each shard's home and epoch;
//  2. no epoch in the table is above the highest given out for the shard, and
//     none belongs to a later term;
//  3. a home lives, from recovery on;
//  4. a move is of a shard with a home, between two nodes, away from the home, under
//     an epoch above the home's and not above the highest given out; the old
//     home lives, and so does the new one unless the old one is being asked;
//  5. every move is on its shard and on the list, and will be looked at again
//     within the resend interval;
//  6. before recovery there is no table, no move and no home.
func (c *Coordinator) Check() error {
	var errs []error
	fail := func(n int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("invariant %d: %s", n, fmt.Sprintf(format, args...)))
	}
	onShards := 0
	for _, name := range c.names {
		k := c.kinds[name]
		for i := range k.shards {
			s := &k.shards[i]
			want := placement.Entry{ShardID: s.id, Home: s.home, Epoch: s.epoch}
			if e, ok := c.table.Lookup(s.id); ok && e != want || !ok && s.epoch != 0 {
				fail(1, "the table says %v, the coordinator %v", e, want)
			}
			if s.epoch > s.last || s.last.Term() > c.config.Term.Number {
				fail(2, "%v: epoch %v, highest %v in term %v", s.id, s.epoch, s.last, c.config.Term)
			}
			if !s.home.IsZero() && !c.alive(s.home) {
				fail(3, "the home of %v is %v, which is gone", s.id, s.home)
			}
			if s.move != nil {
				onShards++
			}
			if !c.recovered && (s.move != nil || !s.home.IsZero()) {
				fail(6, "%v was decided about", s.id)
			}
		}
	}
	for _, m := range c.moves {
		s := m.shard
		if s.home != m.from || m.to == m.from || m.epoch <= s.epoch || m.epoch > s.last ||
			!c.alive(m.from) || !c.alive(m.to) && m.phase != askingOld {
			fail(4, "%v at %v: move %v→%v at %v, %v", s.id, s.epoch, m.from, m.to, m.epoch, m.phase)
		}
		if s.move != m || m.phase == ended || m.resendAt.After(c.now.Add(c.config.ResendInterval)) {
			fail(5, "%v: %v, next at %v", s.id, m.phase, m.resendAt)
		}
	}
	if onShards != len(c.moves) {
		fail(5, "%d shards move, %d moves are listed", onShards, len(c.moves))
	}
	if !c.recovered && c.table != nil {
		fail(6, "table %v", c.table.Version())
	}
	return errors.Join(errs...)
}
