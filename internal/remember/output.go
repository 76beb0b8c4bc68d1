package remember

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Output has the actions to be taken.
type Output struct {
	Send     []Envelope
	Activate []Activate
	Done     []Done
	// Recalled are the shards of which the ids were looked for.
	Recalled []Recollection
	// WakeAt is when the next Step is due, if nothing happens before; zero means never.
	WakeAt time.Time
}

// An Envelope is a message to one member.
type Envelope struct {
	To      transport.Address
	Message Message
}

// Activate names the entities of a shard that are to be activated again, sorted. Some may
// be active already.
type Activate struct {
	placement.ShardID
	IDs []string
}

// Done answers an Add.
type Done struct {
	Ticket Ticket
	New    bool  // it was not remembered before
	Err    error // it is not remembered: ErrFull, or the store's
}

// A Recollection is the result of a recall.
type Recollection struct {
	placement.ShardID
	Found  int
	Silent []transport.Address // members that were not waited for any longer
}

// ErrFull means that the shard remembers the maximum number of entities.
var ErrFull = errors.New("the shard remembers as many entities as it may")
