package node

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// migrator is an entity whose state has versions, by version= of its directive.
type migrator interface{ MigrateState(from int) error }

// form is the version of the states that this program writes, as the store has it: 0 stands for 1.
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
		return nil, fmt.Errorf("the state of %s/%.100s has version %d and this program knows versions up to %d: a newer program wrote it (run that program, or a later one, on this node too)",
			h.Name, id, from, now)
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, fmt.Errorf("%w in MigrateState: %v", ErrPanic, r)
		}
		if err != nil {
			err = fmt.Errorf("migrate the state of %s/%.100s from version %d to %d: %w (it is kept as it is: mend MigrateState)", h.Name, id, from, now, err)
		}
	}()
	return restate(h, id, loaded.State, func(entity any) error {
		return entity.(migrator).MigrateState(from) // the generator has looked for it
	})
}
