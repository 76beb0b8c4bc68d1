// Package linear checks the calls in a [shardtest.History] against a model of the entity. The check
// passes if the calls could have run one after another, each call at most once and each answered
// call exactly once. The package uses porcupine, a checker of linearizability. It is a module of
// its own, so that other tests do not depend on porcupine.
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

// Patience bounds the time of a check, which may be exponential in the number of concurrent calls.
const Patience = time.Minute

// Check passes if the calls of the history could have run one after another as the model m defines,
// each between its begin and its end. Otherwise Check fails the test; it also does so if the check
// takes longer than a minute. A failed Check writes a page that shows the calls into
// [testing.T.ArtifactDir].
//
// Check needs real time, so call it after [shardtest.Run], not in virtual time.
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

// A Model defines how an entity behaves in one process without faults. The type I describes a call,
// O the call's results, and S the entity's state. The first state is the zero value of S.
type Model[I, O, S any] struct {
	// Entity returns a name for the called entity. Entities are checked separately, which takes
	// much less time. Nil means that all calls are of one entity.
	Entity func(in I) string
	// Apply runs a call on a state. It returns the next state, and the call's results or the
	// entity's error. It must not change values to which state points.
	Apply func(state S, in I) (next S, out O, err error)
	// Same reports whether an answer equals that of the model. Nil means reflect.DeepEqual.
	Same func(got, want O) bool
}

type answer[O any] struct {
	out    O
	failed bool // the entity returned an error
	none   bool // the call may not have run
}

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

// partition groups calls by entity, in the order of their first calls.
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

// operations converts a history for porcupine, without the calls that did not run. If it is unknown
// whether a call ran, its end is after all other ends, because the call may take effect at any
// time.
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
