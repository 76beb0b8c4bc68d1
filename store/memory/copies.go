package memory

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/store"
)

// A write changes one copy of the shards. It must have the same effect on every copy.
type write func(*shards)

type shards struct {
	revision store.Revision // of the last write of a head or record
	position store.Position // of the last append
	all      map[store.Shard]*shard
}

type shard struct {
	head    store.Head
	log     []store.Append
	records map[string]store.Record
}

func (c *shards) of(s store.Shard) *shard {
	found := c.all[s]
	if found == nil {
		found = &shard{records: make(map[string]store.Record)}
		c.all[s] = found
	}
	return found
}

func (c *shards) clone() *shards {
	clone := *c
	clone.all = make(map[store.Shard]*shard, len(c.all))
	for s, one := range c.all {
		clone.all[s] = &shard{head: one.head, log: slices.Clone(one.log), records: maps.Clone(one.records)}
	}
	return &clone
}

func (s *shard) last() store.Position {
	if len(s.log) == 0 {
		return store.Start
	}
	return s.log[len(s.log)-1].Position
}

// between returns the appends between two positions, both included. It returns nil if the append at
// either position is missing.
func (s *shard) between(from, to store.Position) []store.Append {
	first, ok := s.index(from)
	if from == store.Start {
		first, ok = 0, true
	}
	last, found := s.index(to)
	if !ok || !found || last < first {
		return nil
	}
	return s.log[first : last+1]
}

func (s *shard) index(p store.Position) (int, bool) {
	return slices.BinarySearchFunc(s.log, p, func(a store.Append, p store.Position) int {
		switch {
		case a.Position < p:
			return -1
		case a.Position > p:
			return 1
		}
		return 0
	})
}

// trim removes the appends below a position, except the last append.
func (s *shard) trim(below store.Position) {
	at, _ := s.index(below)
	s.log = slices.Clone(s.log[max(min(at, len(s.log)-1), 0):])
}

// copies are a server's shards in memory, on disk and at a second replica.
type copies struct {
	leader, follower, disk *shards
	unsynced               []write // writes that the disk lacks, oldest first
	followed               int     // how many of unsynced the follower has
	lag                    int     // number of writes that the follower lags behind
}

func newCopies() *copies {
	empty := &shards{all: make(map[store.Shard]*shard)}
	return &copies{leader: empty, follower: empty.clone(), disk: empty.clone()}
}

func (c *copies) write(w write) {
	w(c.leader)
	c.unsynced = append(c.unsynced, w)
	c.replicate()
}

func (c *copies) holdBack(writes int) {
	c.lag = min(max(writes, 0), MaxUnsynced)
	c.replicate()
}

func (c *copies) replicate() {
	for len(c.unsynced)-c.followed > c.lag {
		c.unsynced[c.followed](c.follower)
		c.followed++
	}
	for len(c.unsynced) > MaxUnsynced {
		c.unsynced[0](c.disk)
		c.unsynced = c.unsynced[1:]
		c.followed--
	}
}

func (c *copies) restart(lost int) {
	for _, w := range c.unsynced[:len(c.unsynced)-min(max(lost, 0), len(c.unsynced))] {
		w(c.disk)
	}
	c.leader, c.follower = c.disk.clone(), c.disk.clone()
	c.unsynced, c.followed = nil, 0
}
