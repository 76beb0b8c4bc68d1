package shard

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/runtime/remember"
)

// luggage is the remembered ids that travel with a shard.
type luggage struct {
	epoch placement.Epoch // of the move
	ids   map[string]struct{}
	all   bool // no others are remembered
}

// packs is what the shard takes along; its turns have ended.
func (s *hostedShard) packs() (l luggage) {
	if s.host.memory == nil {
		return l
	}
	ids, known := s.host.memory.ids(s.id)
	l.ids, l.all = make(map[string]struct{}, len(ids)), known
	for _, id := range ids {
		l.ids[id] = struct{}{}
	}
	return l
}

// unpack reads a part of what travels with a shard.
func unpack(payload []byte) (states map[string][]byte, ids luggage, err error) {
	states, ids.ids = map[string][]byte{}, map[string]struct{}{}
	err = wire.ParseRecords(payload, func(r wire.Record) {
		switch {
		case r.Entity == "":
			ids.all = true
			return
		case r.Remembered != wire.NotRemembered:
			ids.ids[r.Entity] = struct{}{}
		}
		if r.Remembered == wire.WithoutState {
			return
		}
		if r.State == nil {
			r.State = []byte{}
		}
		states[r.Entity] = r.State
	})
	return states, ids, err
}

// comesLocked keeps the ids that came until the shard opens.
func (s *hostedShard) comesLocked(epoch placement.Epoch, part luggage) {
	if s.host.memory == nil {
		return
	}
	if s.coming == nil || s.coming.epoch != epoch {
		s.coming = &luggage{epoch: epoch, ids: map[string]struct{}{}}
	}
	maps.Copy(s.coming.ids, part.ids)
	s.coming.all = s.coming.all || part.all
}

// rememberLocked tells the memory whether the shard runs here, when that has
// changed or it runs under a new epoch.
func (s *hostedShard) rememberLocked(opened bool) {
	m := s.host.memory
	if m == nil {
		return
	}
	switch state := s.core.State(); {
	case opened:
		o := remember.Open{ShardID: s.id, Epoch: s.core.Epoch()}
		if l := s.coming; l != nil && l.all {
			o.IDs, o.Known = slices.Sorted(maps.Keys(l.ids)), true
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
			m.left(s.id)
		}
	}
}
