package shardtest

import (
	"errors"
	"slices"
	"sync"

	shard "github.com/shardgen/shardgen/runtime"
)

// A History records calls with their outcomes, and the order in which they began and ended. Pass
// its operations to a checker of linearizability, such as porcupine. The checker decides whether
// the calls could have run one after another: each call at most once, and each answered call
// exactly once. A value of type I describes a call, and a value of type O its results. The zero
// History is empty and ready for use. A History is safe for concurrent use.
type History[I, O any] struct {
	mu         sync.Mutex
	clock      int64
	operations []Operation[I, O]
}

// An Operation is one call of a [History].
type Operation[I, O any] struct {
	In  I
	Out O     // results of a call without an error
	Err error // the caller's error
	// Begin and End number the begins and ends of all calls of the history in the order of time: if
	// a call ended before another call began, its End is below the other's Begin. End is 0 for a
	// call that has not ended.
	Begin, End int64
}

// Outcome reports whether the call ran. The outcome is Unknown if the call has not ended, or if its
// error is not that of a call to an entity.
func (o Operation[I, O]) Outcome() shard.Outcome {
	var own *shard.CallError
	var entity *shard.EntityError
	switch {
	case o.End == 0:
		return shard.Unknown
	case o.Err == nil || errors.As(o.Err, &own) || errors.As(o.Err, &entity):
		return shard.OutcomeOf(o.Err)
	}
	return shard.Unknown
}

// Call makes a call, records it, and returns its results.
func (h *History[I, O]) Call(in I, call func() (O, error)) (O, error) {
	h.mu.Lock()
	h.clock++
	at := len(h.operations)
	h.operations = append(h.operations, Operation[I, O]{In: in, Begin: h.clock})
	h.mu.Unlock()
	out, err := call()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	o := &h.operations[at]
	o.Out, o.Err, o.End = out, err, h.clock
	return out, err
}

// Operations returns the calls in the order in which they began.
func (h *History[I, O]) Operations() []Operation[I, O] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.operations)
}

// Count returns the number of calls with each outcome.
func (h *History[I, O]) Count() map[shard.Outcome]int {
	count := map[shard.Outcome]int{}
	for _, o := range h.Operations() {
		count[o.Outcome()]++
	}
	return count
}
