package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// errActivate is the error of an entity that exists in the store and cannot be
// activated.
var errActivate = errors.New("activate")

// loadState reads an entity that is not active, in a turn of it, and brings its state up to this
// program's version and its events. If err is nil, the tenure's Passivated is to be called when the state is no
// longer used.
func loadState(ctx context.Context, h *codegen.Host, tenure *durablehost.Tenure, id string) (durable.Loaded, error) {
	loaded, err := tenure.Load(ctx, id)
	if err != nil || !loaded.Found {
		return loaded, err
	}
	if loaded.State, err = migrated(h, id, &loaded); err == nil {
		if loaded.State, err = foldEvents(h, id, slices.Concat([]byte{}, loaded.State), loaded.Since); err != nil {
			err = fmt.Errorf("the events that follow its state: %w", err)
		}
	}
	if err != nil {
		tenure.Passivated(id)
		return loaded, fmt.Errorf("%w: %w", errActivate, err)
	}
	return loaded, nil
}

// UnreadableState reports whether an error of loadState says that the entity's state is in the store and this
// program cannot read it, and not that the store or the shard is away.
func UnreadableState(err error) bool {
	return errors.Is(err, errActivate) || errors.Is(err, durable.ErrCorrupt) || errors.Is(err, durable.ErrNewer)
}

// StoredState returns the state of a durable entity that is not active, in a turn of it; nil means it has
// none.
func StoredState(ctx context.Context, d *durablehost.Shard, h *codegen.Host, id string) ([]byte, error) {
	tenure, err := d.Tenure(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := loadState(ctx, h, tenure, id)
	if err != nil {
		return nil, err
	}
	tenure.Passivated(id)
	if !loaded.Found {
		return nil, nil
	}
	return loaded.State, nil
}
