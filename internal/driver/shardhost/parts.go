package shardhost

import (
	"maps"
	"slices"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// Carried is what moves with a shard beside the states of its entities.
type Carried struct {
	Epoch     placement.Epoch     // epoch of the move
	IDs       map[string]struct{} // remembered ids
	All       bool                // IDs are all remembered ids of the shard
	Reminders map[string][]byte   // encoded reminders of volatile entities, by id; parts of a split encoding must be joined
}

// pack encodes states, and what moves with them, into one or more payloads of at most limit bytes.
// It splits large states, which unpack and region.Shard.Prepare join again.
func pack(states []region.Encoded, with Carried, limit int) (payloads [][]byte) {
	var records []byte
	add := func(entity string, bytes []byte, r wire.Remembered) {
		for first := true; first || len(bytes) > 0; first = false {
			piece := bytes[:min(len(bytes), limit-wire.RecordBound(entity, nil))]
			if len(records) > 0 && len(records)+wire.RecordBound(entity, piece) > limit {
				payloads, records = append(payloads, records), nil
			}
			records = wire.AppendRecord(records, entity, piece, r)
			bytes = bytes[len(piece):]
		}
	}
	stateless := maps.Clone(with.IDs)
	for _, e := range states {
		mark := wire.NotRemembered
		if _, ok := stateless[e.ID]; ok {
			mark = wire.WithState
			delete(stateless, e.ID)
		}
		add(e.ID, e.State, mark)
	}
	for _, id := range slices.Sorted(maps.Keys(stateless)) {
		add(id, nil, wire.WithoutState)
	}
	for _, id := range slices.Sorted(maps.Keys(with.Reminders)) {
		add(id, with.Reminders[id], wire.OfReminders)
	}
	if with.All {
		add("", nil, wire.WithoutState)
	}
	return append(payloads, records)
}

func unpack(payload []byte) (states map[string][]byte, with Carried, err error) {
	states, with.IDs = map[string][]byte{}, map[string]struct{}{}
	err = wire.ParseRecords(payload, func(r wire.Record) {
		switch {
		case r.Entity == "":
			with.All = true
			return
		case r.Remembered == wire.OfReminders:
			if with.Reminders == nil {
				with.Reminders = map[string][]byte{}
			}
			with.Reminders[r.Entity] = append(with.Reminders[r.Entity], r.State...)
			return
		case r.Remembered != wire.NotRemembered:
			with.IDs[r.Entity] = struct{}{}
		}
		if r.Remembered == wire.WithoutState {
			return
		}
		if r.State == nil {
			r.State = []byte{}
		}
		states[r.Entity] = r.State
	})
	return states, with, err
}
