package shard

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/measure"
)

// A refusal is why a call was refused.
type refusal int

const (
	refusedOther       refusal = iota
	refusedOverloaded          // there is no room to wait
	refusedCircular            // the call came back to an entity that waits for it
	refusedMoved               // its shard is elsewhere: the sender looks for its home
	refusedDropped             // its shard was lost, or its type drops calls that wait in a move
	refusedNoHost              // the node does not host the type, or with another number of shards
	refusedForbidden           // its sender may not send it
	refusedIntercepted         // by an interceptor of the host
	refusedTooLarge            // the broker takes too little on its way
	refusals                   // how many there are
)

// refusalNames are the keys of measure.Load.Refused. Those that callers see as errors have the names that
// shardotel gives these.
var refusalNames = [refusals]string{
	"other", "overloaded", "circular", "moved", "dropped", "no_host", "forbidden", "refused", "too_large",
}

// causeOf is why a call was refused that was answered with a code.
func causeOf(c wire.Code) refusal {
	switch c {
	case wire.CodeOverloaded:
		return refusedOverloaded
	case wire.CodeCircular:
		return refusedCircular
	case wire.CodeMoved:
		return refusedMoved
	case wire.CodeDropped:
		return refusedDropped
	case wire.CodeUnknownKind:
		return refusedNoHost
	case wire.CodeForbidden:
		return refusedForbidden
	case wire.CodeIntercepted:
		return refusedIntercepted
	case wire.CodeUnsendable:
		return refusedTooLarge
	}
	return refusedOther
}

// refusalCounts count refused calls by cause. It is safe for concurrent use.
type refusalCounts [refusals]atomic.Uint64

// note counts a call that was refused with a code.
func (c *refusalCounts) note(code wire.Code) { c[causeOf(code)].Add(1) }

func (c *refusalCounts) snapshot() map[string]uint64 {
	all := make(map[string]uint64, len(c))
	for i := range c {
		all[refusalNames[i]] = c[i].Load()
	}
	return all
}

// A tally counts the activations, passivations and moves of one type. It is safe for concurrent use.
type tally struct {
	refusals     *refusalCounts // of the process
	meters       *meters        // of the process
	kind         string
	activations  [codegen.Recovered + 1]atomic.Uint64
	passivations [codegen.Forgotten + 1]atomic.Uint64
	bytes        atomic.Uint64 // encoded states of passivated entities
	begun        atomic.Uint64 // moves away
	committed    atomic.Uint64
	givenUp      atomic.Uint64
}

var _ shardhost.Watch = (*tally)(nil)

// MoveBegun counts a move away.
func (t *tally) MoveBegun() { t.begun.Add(1) }

// MoveEnded counts the end of a move away.
func (t *tally) MoveEnded(moved bool, pause time.Duration) {
	if moved {
		t.committed.Add(1)
	} else {
		t.givenUp.Add(1)
	}
	t.meters.each(func(m *measure.Meter) {
		if m.MoveEnded != nil {
			m.MoveEnded(t.kind, moved, pause)
		}
	})
}

// Refused notes the cause of a refused call, which is counted as refused elsewhere.
func (t *tally) Refused(code wire.Code) { t.refusals.note(code) }

func (t *tally) load(l *measure.Type) {
	l.Activations, l.Passivations = map[string]uint64{}, map[string]uint64{}
	for i := range t.activations {
		l.Activations[codegen.Activation(i).String()] = t.activations[i].Load()
	}
	for i := range t.passivations {
		l.Passivations[codegen.Passivation(i).String()] = t.passivations[i].Load()
	}
	l.PassivatedBytes = t.bytes.Load()
	l.MovesCommitted, l.MovesGivenUp = t.committed.Load(), t.givenUp.Load()
	l.MovesBegun = t.begun.Load() // last, so that it is not less than the others together
}
