package node

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// An entity cannot be activated if its state does not decode, or has a later version than the
// program knows. The stored state then stays unchanged, and the entity's calls fail with this
// reason. An operator can show, replace or drop the state.

func errUnreadable(h *codegen.Host, id string, err error) error {
	remedy := "the flags -from FILE and -drop replace or drop it"
	if h.Durable {
		remedy = fmt.Sprintf("while no member hosts %s, shardctl store repair %s %s -from EXPORT replaces it, and -drop drops it", h.Name, h.Name, clip(id))
	}
	return fmt.Errorf("the state of %s/%s cannot be read and is kept as it is: %w (see it with shardctl state %s %s; %s)",
		h.Name, clip(id), err, h.Name, clip(id), remedy)
}

// Unreadable records the entities of a type whose states could not be read.
type Unreadable struct {
	mu  sync.Mutex // guards ids
	ids map[string]struct{}
}

const maxUnreadable = 1000

func (u *Unreadable) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = make(map[string]struct{})
	}
	if len(u.ids) < maxUnreadable {
		u.ids[id] = struct{}{}
	}
}

func (u *Unreadable) Remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}

func (u *Unreadable) All() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.ids))
}
