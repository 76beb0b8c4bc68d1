package node

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/wire"
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

// refusalNames are the keys of measure.Load.Refused. Those seen by callers as errors have shardotel's
// names.
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

// RefusalCounts count refused calls by cause. It is safe for concurrent use.
type RefusalCounts [refusals]atomic.Uint64

// note counts a call that was refused with a code.
func (c *RefusalCounts) note(code wire.Code) { c[causeOf(code)].Add(1) }

func (c *RefusalCounts) Snapshot() map[string]uint64 {
	all := make(map[string]uint64, len(c))
	for i := range c {
		all[refusalNames[i]] = c[i].Load()
	}
	return all
}
