package node

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// keysOf returns the index keys of an entity; nil if its type has no indexes.
func keysOf(h *codegen.Host, entity any) []byte {
	if h.AppendIndexes == nil {
		return nil
	}
	return h.AppendIndexes(make([]byte, 0, 32), entity)
}

// indexOf returns the description of a type's indexes, for its shards.
func indexOf(h *codegen.Host) *durable.Index {
	if h.AppendIndexes == nil {
		return nil
	}
	fields := strconv.Itoa(max(h.StateVersion, 1)) + ":"
	for i, x := range h.Indexes {
		if i > 0 {
			fields += ","
		}
		fields += x.Kind
	}
	return &durable.Index{Fields: fields, Keys: func(id string, form uint32, state []byte, since [][]byte) (keys []byte, err error) {
		defer func() {
			if r := recover(); r != nil { // the factory panicked: a shard must not fail because of one entity
				keys, err = nil, PanicError("reading a state for its indexes", r)
			}
		}()
		state, err = restored(h, id, &durable.Loaded{Form: form, State: state, Since: since})
		if err == nil {
			_, err = restate(h, id, state, func(entity any) error {
				keys = keysOf(h, entity)
				return nil
			})
		}
		return keys, err
	}}
}

// restored migrates a stored state, and applies the events that follow the state.
func restored(h *codegen.Host, id string, loaded *durable.Loaded) (state []byte, err error) {
	if state, err = migrated(h, id, loaded); err != nil {
		return nil, err
	}
	if state, err = foldEvents(h, id, slices.Concat([]byte{}, state), loaded.Since); err != nil {
		return nil, fmt.Errorf("the events after the stored state: %w", err)
	}
	return state, nil
}
