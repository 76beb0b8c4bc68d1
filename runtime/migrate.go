package shard

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// migrator is an entity whose state has versions, by version= of its directive.
type migrator interface{ MigrateState(from int) error }

// form is the version of the states that this program writes, as the store has it: absent is 1.
func form(h *codegen.Host) uint32 {
	if h.StateVersion <= 1 {
		return 0
	}
	return uint32(h.StateVersion)
}

// migrated returns the state of a loaded entity in the version of this program.
func migrated(h *codegen.Host, id string, loaded *durable.Loaded) (state []byte, err error) {
	from, now := max(int(loaded.Form), 1), max(h.StateVersion, 1)
	switch {
	case from == now:
		return loaded.State, nil
	case from > now:
		return nil, fmt.Errorf("the state of %s/%s has version %d and this program knows versions up to %d: a newer program wrote it (run that program, or a later one, on this node too)",
			h.Name, clip(id), from, now)
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, panicError("MigrateState", r)
		}
		if err != nil {
			err = fmt.Errorf("migrate the state of %s/%s from version %d to %d: %w (it is kept as it is: mend MigrateState)", h.Name, clip(id), from, now, err)
		}
	}()
	entity := h.New()
	if h.SetID != nil {
		if err := h.SetID(entity, id); err != nil {
			return nil, err
		}
	}
	skipped, err := h.DecodeState(entity, loaded.State)
	if err != nil {
		return nil, err
	}
	if err := entity.(migrator).MigrateState(from); err != nil { // the generator has looked for it
		return nil, err
	}
	state, err = h.AppendState([]byte{}, entity)
	if err == nil && skipped {
		state = codegen.AppendUnknown(state, codegen.UnknownFields(loaded.State, h.StateFields), h.StateFields)
	}
	return state, err
}
