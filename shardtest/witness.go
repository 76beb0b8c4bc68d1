package shardtest

import (
	"context"
	"slices"
	"sync"
	"testing"

	shard "github.com/shardgen/shardgen/runtime"
)

// A Witness watches the turns of entities at all nodes of a test. It counts turns, and fails the
// test when two turns of one entity run at the same time, at one node or at two. A turn whose
// context has ended does not count as running, because in a test a killed node's method may still
// run beside the entity's next turn. Write methods that do nothing more once their context has
// ended.
//
//	w := shardtest.NewWitness(t)
//	host := func(n *shard.Node) error { return counter.HostCounter(n, newCounter, w.Watch()) }
//
// It is safe for concurrent use.
type Witness struct {
	t       testing.TB
	mu      sync.Mutex
	running map[entityKey][]*watched
	turns   map[entityKey]int
}

type watched struct {
	ctx    context.Context
	method string
}

// NewWitness returns a Witness that has seen no turns.
func NewWitness(t testing.TB) *Witness {
	return &Witness{t: t, running: map[entityKey][]*watched{}, turns: map[entityKey]int{}}
}

// Watch returns an option for the generated function HostX: w then watches the turns of type X.
// With the option, calls within one process are encoded and run on another goroutine
// ([shard.Intercept]).
func (w *Witness) Watch() shard.HostOption { return shard.Intercept(w.intercept) }

// Turns returns how many turns of the entity have begun, at all nodes, since NewWitness.
func (w *Witness) Turns(kind, id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turns[entityKey{kind, id}]
}

func (w *Witness) intercept(ctx context.Context, call shard.Info, next func(context.Context) error) error {
	turn, of := &watched{ctx, call.Method}, entityKey{call.Kind, call.ID}
	if other := w.begin(of, turn); other != "" {
		w.t.Errorf("two turns of %s/%s run at once: %s and %s", call.Kind, call.ID, other, call.Method)
	}
	defer w.end(of, turn)
	return next(ctx)
}

// begin records a turn. It returns the method of another running turn of the entity, or "".
func (w *Witness) begin(of entityKey, turn *watched) (other string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[of]++
	if at := slices.IndexFunc(w.running[of], func(t *watched) bool { return t.ctx.Err() == nil }); at >= 0 {
		other = w.running[of][at].method
	}
	w.running[of] = append(w.running[of], turn)
	return other
}

func (w *Witness) end(of entityKey, turn *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.running[of], func(t *watched) bool { return t == turn })
	if w.running[of] = left; len(left) == 0 {
		delete(w.running, of)
	}
}
