package remember

import (
	"github.com/shardgen/shardgen/runtime/placement"
)

// A Message is one of the messages among members: [Keep], [Kept], [Recall] or [Recalled].
type Message interface{ message() }

// Keep has changes, from a home to a replica. Seq counts the messages between the two,
// from 1.
type Keep struct {
	Seq   uint64
	Parts []Part
}

// Kept acknowledges the Keep of that number.
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

// A Want asks for the ids of a shard that follow After, in their order.
type Want struct {
	placement.ShardID
	After string
}

// A Part is some changes of one shard's ids, in order, or some of its ids.
type Part struct {
	placement.ShardID
	// Epoch is the epoch of the home that has or had the shard; in a Recalled it is
	// 0 if the member keeps no ids.
	Epoch placement.Epoch
	// Seq counts the home's changes of the shard; 0 while the set is not whole.
	Seq     uint64
	Reset   bool // the set begins anew with this part
	Seal    bool // with this part the set is whole
	Drop    bool // ids kept up to Epoch are not needed any more
	More    bool // of a Recalled: more is left
	Changes []Change
}

// A Change is an id that was added or removed.
type Change struct {
	ID   string
	Gone bool
}

// overhead bounds the bytes of a part and of an id on the wire, beside the id's own.
const (
	partOverhead = 96
	idOverhead   = 8
)
