package durable

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/store"
)

// An image is what a server had on its disk at one moment: if the machine crashes, it comes back with that.
type image struct {
	position store.Position
	revision store.Revision
	shards   map[int]*kept
}

func (k *kept) clone() *kept {
	c := &kept{log: slices.Clone(k.log), head: slices.Clone(k.head), records: maps.Clone(k.records)}
	//arch:order-free each by itself
	for id, all := range c.records {
		c.records[id] = slices.Clip(slices.Clone(all))
	}
	return c
}

// sync writes everything to the disk.
func (s *server) sync() image {
	i := image{s.position, s.revision, map[int]*kept{}}
	for shard, k := range s.shards { //arch:order-free each by itself
		i.shards[shard] = k.clone()
	}
	return i
}

// putBackTo has the server come back with what it had on its disk, of the logs, of the heads and records, or
// of both. It goes on behind the last position and revision that it has, so it uses some of them again.
func (s *server) putBackTo(i image, logs, records bool) {
	for shard, k := range s.shards { //arch:order-free each by itself
		was := i.shards[shard].clone()
		if logs {
			k.log = was.log
		}
		if records {
			k.head, k.records = was.head, was.records
		}
	}
	if logs {
		s.position = i.position
	}
	if records {
		s.revision = i.revision
	}
}
