package runner

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/core/region"
)

// asides are the tells put aside because their turn goes on without the run token: an earlier tell
// takes long, or the entity restarts or is passivated. The goroutine of that tell runs the next
// one, so that the tells of an entity stay in order. The zero value is empty. It is safe for
// concurrent use.
type asides struct {
	n     atomic.Int32 // entities; written under mu
	bytes atomic.Int64 // of the tells, as a batch counts them

	mu    sync.Mutex
	tells map[*region.Entity][]Aside
	// early is the entity whose tell reported the loss of the run token before the series' next
	// goroutine began; nil means there is none. That goroutine knows it too, and must not put the
	// entity aside again: its turn may be over.
	early *region.Entity
}

// An Aside is a tell that was put aside.
type Aside struct {
	Method string
	Args   []byte
}

// some reports whether tells of any entity are put aside.
func (a *asides) some() bool { return a.n.Load() > 0 }

// begin has the tells of an entity put aside. It reports false if they are already. mu is held.
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

// SetAside is called by the holder of an entity's turn before it goes on with the turn without the
// run token. Leave ends that.
func (a *asides) SetAside(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(e)
}

// Lost is SetAside for a holder from which the run token was taken.
func (a *asides) Lost(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begin(e) {
		a.early = e
	}
}

// resumed is called by the goroutine that goes on behind a tell of the entity.
func (a *asides) resumed(e *region.Entity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.early == e {
		a.early = nil
		return
	}
	a.begin(e)
}

// add puts a tell aside, of which it keeps a copy, if tells of its entity are.
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

// leave takes one tell of the entity's turn as over. It returns the next one if that is put aside.
// If left is false, the turn ends under the shard's lock.
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
