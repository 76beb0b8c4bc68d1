package linear

import (
	"math"
	"reflect"

	"github.com/anishathalye/porcupine"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

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
