package remember

import (
	"github.com/shardgen/shardgen/runtime/placement"
)

// A Message is one of the messages among members: [Keep], [Kept], [Recall] or [Recalled].
type Message interface{ message() }

// Keep brings changes from a home to one that keeps its ids. Seq counts the
// messages between the two, from 1.
type Keep struct {
	Seq   uint64
	Parts []Part
}

// Kept says that the Keep of that number was taken in.
type Kept struct{ Seq uint64 }

// Recall asks for the ids of shards whose home was lost.
type Recall struct {
	Seq   uint64
	Wants []Want
}

// Recalled answers the Recall of that number, for the first of its wants at least.
type Recalled struct {
	Seq   uint64
	Parts []Part
}

func (Keep) message()     {}
func (Kept) message()     {}
func (Recall) message()   {}
func (Recalled) message() {}

// A Want asks for the ids of a shard behind After, in their order.
type Want struct {
	placement.ShardID
	After string
}

// A Part is some changes of one shard's ids, in order, or some of its ids.
type Part struct {
	placement.ShardID
	// Epoch is that under which the home has or had the shard; of a Recalled 0 when
	// nothing is kept.
	Epoch placement.Epoch
	// Seq counts the home's changes of the shard; 0 while the set is not whole.
	Seq     uint64
	Reset   bool // the set begins anew with this part
	Seal    bool // with this part the set is whole
	Drop    bool // ids kept up to Epoch are not needed any more
	More    bool // of a Recalled: more is left
	Changes []Change
}

// A Change is an id that came, or has gone.
type Change struct {
	ID   string
	Gone bool
}

// overhead is what a part and an id cost on the wire beside their bytes, at most.
const (
	partOverhead = 96
	idOverhead   = 8
)
