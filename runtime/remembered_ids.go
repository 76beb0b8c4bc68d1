package shard

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/runtime/remember"
)

// packs is what the shard takes along; its turns have ended.
func (s *hostedShard) packs() (l shardhost.RememberedIDs) {
	if s.host.memory == nil {
		return l
	}
	ids, known := s.host.memory.ids(s.ID)
	l.IDs, l.All = make(map[string]struct{}, len(ids)), known
	for _, id := range ids {
		l.IDs[id] = struct{}{}
	}
	return l
}

// comesLocked keeps the ids that came until the shard opens.
func (s *hostedShard) comesLocked(part shardhost.RememberedIDs) {
	if s.host.memory == nil {
		return
	}
	if s.coming == nil || s.coming.Epoch != part.Epoch {
		s.coming = &shardhost.RememberedIDs{Epoch: part.Epoch, IDs: map[string]struct{}{}}
	}
	maps.Copy(s.coming.IDs, part.IDs)
	s.coming.All = s.coming.All || part.All
}

// rememberLocked tells the memory whether the shard runs here, when that has
// changed or it runs under a new epoch.
func (s *hostedShard) rememberLocked(opened bool) {
	m := s.host.memory
	if m == nil {
		return
	}
	switch state := s.Core.State(); {
	case opened:
		o := remember.Open{ShardID: s.ID, Epoch: s.Core.Epoch()}
		if l := s.coming; l != nil && l.All {
			o.IDs, o.Known = slices.Sorted(maps.Keys(l.IDs)), true
		}
		s.remembers, s.coming = true, nil
		m.opened(o)
	case state == region.Preparing, state == region.Prepared:
	case state == region.Open, state == region.Draining, state == region.Sent:
		s.coming = nil
	default:
		s.coming = nil
		if s.remembers {
			s.remembers = false
			for _, t := range s.reviving {
				t.Stop()
			}
			s.reviving = nil
			m.left(s.ID)
		}
	}
}
