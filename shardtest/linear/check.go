// Package linear checks the calls in a [shardtest.History] against a model of the entity: they
// could have run one after another, each at most once and each answered one exactly once. It uses
// porcupine, a checker of linearizability, and is a module of its own, so other tests do not depend
// on porcupine.
//
//	var history shardtest.History[Call, int64]
//	…
//	history.Call(Call{"ann", 5}, func() (int64, error) { return accounts.Ref("ann").Add(ctx, 5) })
//	…
//	linear.Check(t, linear.Model[Call, int64, int64]{
//		Entity: func(c Call) string { return c.ID },
//		Apply: func(balance int64, c Call) (int64, int64, error) {
//			return balance + c.Amount, balance + c.Amount, nil
//		},
//	}, history.Operations())
package linear

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// Patience bounds a check, whose time may be exponential in the number of concurrent calls.
const Patience = time.Minute

// Check fails the test if the calls of the history could not have run one after another as the
// model has it, each between its begin and its end, or if a minute is too short to find out. It then
// writes a page that shows the calls into [testing.T.ArtifactDir].
//
// It runs in real time, so a test in virtual time calls it after [shardtest.Run].
func Check[I, O, S any](t testing.TB, m Model[I, O, S], history []shardtest.Operation[I, O]) {
	t.Helper()
	model, calls := m.porcupine(), operations(history)
	result, info := porcupine.CheckOperationsVerbose(model, calls, Patience)
	if result == porcupine.Ok {
		return
	}
	page := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(model, info, page); err != nil {
		t.Log(err)
	}
	if result == porcupine.Unknown {
		t.Fatalf("%d calls could not be checked within %v (record fewer at once, or name their entities by Model.Entity); %s shows them", len(calls), Patience, page)
	}
	t.Fatalf("%d calls could not have run one after another; %s shows them", len(calls), page)
}

// A Model is an entity as one process without faults would have it. I describes a call, O its results
// and S the entity's state, which begins as its zero value.
type Model[I, O, S any] struct {
	// Entity names the entity that is called. Entities are checked apart from each other, which
	// takes much less time. Nil: all calls are of one entity.
	Entity func(in I) string
	// Apply runs a call on a state. It returns the next state, and the call's results or the error
	// of the entity. It must not change what state points to.
	Apply func(state S, in I) (next S, out O, err error)
	// Same reports whether an answer is the one of the model. Nil: reflect.DeepEqual.
	Same func(got, want O) bool
}

// answer is the output of a call as the caller saw it.
type answer[O any] struct {
	out    O
	failed bool // the entity returned an error
	none   bool // the call may not have run
}

// porcupine returns the model as the checker takes it.
func (m Model[I, O, S]) porcupine() porcupine.Model {
	same := m.Same
	if same == nil {
		same = func(got, want O) bool { return reflect.DeepEqual(got, want) }
	}
	p := porcupine.Model{
		Init: func() any { var zero S; return zero },
		Step: func(state, in, out any) (bool, any) {
			next, want, err := m.Apply(state.(S), in.(I))
			got := out.(answer[O])
			return got.none || got.failed == (err != nil) && (got.failed || same(got.out, want)), next
		},
		Equal: reflect.DeepEqual,
	}
	if m.Entity != nil {
		p.Partition = m.partition
	}
	return p
}

// partition returns the calls of each entity, in the order in which the entities were first called.
func (m Model[I, O, S]) partition(all []porcupine.Operation) (parts [][]porcupine.Operation) {
	at := map[string]int{}
	for _, op := range all {
		id := m.Entity(op.Input.(I))
		i, known := at[id]
		if !known {
			i = len(parts)
			at[id], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// operations returns the calls as the checker takes them. Those that certainly did not run are left
// out. A call that may have run begins when it was made and returns at the end of time: it may take
// effect at any moment after its call, or after everything observed.
func operations[I, O any](history []shardtest.Operation[I, O]) (all []porcupine.Operation) {
	for i, op := range history {
		p := porcupine.Operation{ClientId: i, Input: op.In, Call: op.Begin, Return: op.End}
		switch op.Outcome() {
		case shard.NotExecuted:
			continue
		case shard.Unknown:
			p.Output, p.Return = answer[O]{none: true}, math.MaxInt64
		default:
			p.Output = answer[O]{out: op.Out, failed: op.Err != nil}
		}
		all = append(all, p)
	}
	return all
}
