package node

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/wire"
)

// A refusal is the cause under which a refused call is counted.
type refusal int

const (
	refusedOther       refusal = iota
	refusedOverloaded          // there is no room to wait
	refusedCircular            // the call came back to an entity that waits for it
	refusedMoved               // its shard is elsewhere, so the sender looks for the home
	refusedDropped             // its shard was lost, or the type drops calls that wait during a move
	refusedNoHost              // the node does not host the type, or hosts it with another number of shards
	refusedForbidden           // its sender has no right to send it
	refusedIntercepted         // an interceptor of the host refused it
	refusedTooLarge            // it is above the broker's payload limit
	refusals                   // number of causes
)

// refusalNames are the keys of measure.Load.Refused, named as in shardotel.
var refusalNames = [refusals]string{
	"other", "overloaded", "circular", "moved", "dropped", "no_host", "forbidden", "refused", "too_large",
}

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

// RefusalCounts counts refused calls by cause. It is safe for concurrent use.
type RefusalCounts [refusals]atomic.Uint64

func (c *RefusalCounts) note(code wire.Code) { c[causeOf(code)].Add(1) }

// Overloaded returns how many calls were refused because there was no room.
func (c *RefusalCounts) Overloaded() uint64 { return c[refusedOverloaded].Load() }

func (c *RefusalCounts) Snapshot() map[string]uint64 {
	all := make(map[string]uint64, len(c))
	for i := range c {
		all[refusalNames[i]] = c[i].Load()
	}
	return all
}
