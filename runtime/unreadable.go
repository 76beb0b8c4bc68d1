package shard

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// An entity whose state does not decode cannot be activated. Its state is kept
// unchanged, its calls fail with this reason, and an operator can show, replace or drop
// it.

// errUnreadable is the error of such an entity. It names the commands for its state.
func errUnreadable(kind, id string, err error) error {
	return fmt.Errorf("the state of %s/%s cannot be read and is kept as it is: %w (see it with shardctl state %s %s; the flags -from FILE and -drop replace or drop it)",
		kind, clip(id), err, kind, clip(id))
}

// unreadable are the entities of a type whose state could not be read.
type unreadable struct {
	mu  sync.Mutex // guards ids
	ids map[string]struct{}
}

// maxUnreadable bounds the recorded ids of a type.
const maxUnreadable = 1000

func (u *unreadable) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = make(map[string]struct{})
	}
	if len(u.ids) < maxUnreadable {
		u.ids[id] = struct{}{}
	}
}

func (u *unreadable) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func (u *unreadable) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.ids))
}
