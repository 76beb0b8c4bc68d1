package runner

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/core/region"
)

// asides holds the tells of entities whose turns go on without the run token. Such a turn runs
// several tells. When one of them ends, Runner.Leave runs the next, so the tells of an entity stay
// in order. asides is safe for concurrent use.
type asides struct {
	n     atomic.Int32 // number of entities whose tells are set aside; written under mu
	bytes atomic.Int64 // bytes of the tells, counted as in a batch

	mu    sync.Mutex
	tells map[*region.Entity][]Aside
	// early is an entity whose tell reported the loss of the run token before the goroutine that
	// continues the series had begun; nil means none. That goroutine must not set the entity's tells
	// aside again, because the entity's turn may have ended.
	early *region.Entity
}

// An Aside is a tell that was set aside.
type Aside struct {
	Method string
	Args   []byte
}

func (a *asides) some() bool { return a.n.Load() > 0 }

// begin sets the entity's tells aside, or reports false if they already are. The caller holds mu.
func (a *asides) begin(e *region.Entity) bool {
	if _, is := a.tells[e]; is {
		return false
	}
	if a.tells == nil {
		a.tells = map[*region.Entity][]Aside{}
	}
	a.tells[e] = nil
	a.n.Add(1)
	return true
}

// SetAside makes later tells of the entity wait aside. Leave runs them one by one; when it finds
// none, tells no longer wait aside. The goroutine that runs the entity's turn calls SetAside before
// it gives up the run token and goes on with the turn.
func (a *asides) SetAside(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(e)
}

// Lost is SetAside, called by a goroutine that has lost the run token.
func (a *asides) Lost(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begin(e) {
		a.early = e
	}
}

// resumed is SetAside, called by the goroutine that gets the run token. Lost may already have been
// called for the same turn.
func (a *asides) resumed(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.early == e {
		a.early = nil
		return
	}
	a.begin(e)
}

func (a *asides) add(t *Turn, args []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, is := a.tells[t.Entity]
	if is {
		a.tells[t.Entity] = append(all, Aside{t.Method, slices.Clone(args)})
		a.bytes.Add(int64(len(args) + turnBytes))
	}
	return is
}

// leave ends one tell of the entity's turn. If goesOn is true, the caller must now run the tell
// next. If left is false, the caller must end the turn under the shard's lock.
func (a *asides) leave(e *region.Entity, now uint32) (next Aside, goesOn, left bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left, _ = e.Leave(now)
	all, is := a.tells[e]
	if len(all) > 0 {
		next, a.tells[e] = all[0], all[1:]
		a.bytes.Add(-int64(len(next.Args) + turnBytes))
		return next, true, left
	}
	if is {
		delete(a.tells, e)
		a.n.Add(-1)
	}
	return Aside{}, false, left
}
