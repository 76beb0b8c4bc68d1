package shardhost

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// RememberedIDs are the remembered ids that travel with a shard.
type RememberedIDs struct {
	Epoch placement.Epoch // epoch of the move
	IDs   map[string]struct{}
	All   bool // these are all the remembered ids of the shard
}

// pack packs states and remembered ids into payloads of at most limit bytes, at least one. unpack
// and region.Shard.Prepare join split states.
func pack(states []region.Encoded, ids RememberedIDs, limit int) (payloads [][]byte) {
	var records []byte
	add := func(entity string, piece []byte, r wire.Remembered) {
		if len(records) > 0 && len(records)+wire.RecordBound(entity, piece) > limit {
			payloads, records = append(payloads, records), nil
		}
		records = wire.AppendRecord(records, entity, piece, r)
	}
	stateless := maps.Clone(ids.IDs)
	for _, e := range states {
		mark := wire.NotRemembered
		if _, ok := stateless[e.ID]; ok {
			mark = wire.WithState
			delete(stateless, e.ID)
		}
		for rest, first := e.State, true; first || len(rest) > 0; first = false {
			piece := rest[:min(len(rest), limit-wire.RecordBound(e.ID, nil))]
			add(e.ID, piece, mark)
			rest = rest[len(piece):]
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stateless)) {
		add(id, nil, wire.WithoutState)
	}
	if ids.All {
		add("", nil, wire.WithoutState)
	}
	return append(payloads, records)
}

func unpack(payload []byte) (states map[string][]byte, ids RememberedIDs, err error) {
	states, ids.IDs = map[string][]byte{}, map[string]struct{}{}
	err = wire.ParseRecords(payload, func(r wire.Record) {
		switch {
		case r.Entity == "":
			ids.All = true
			return
		case r.Remembered != wire.NotRemembered:
			ids.IDs[r.Entity] = struct{}{}
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
