package durable

import (
	"errors"

	"github.com/shardgen/shardgen/store"
)

// Effects are what the driver must do after a method of [Shard], in any order.
type Effects struct {
	// The driver sends Requests to the store, all at once. The store may carry them out in any
	// order.
	Requests []Request
	// Durable is a ticket: the log has all entries up to it. Answers and tells that waited for it
	// may leave.
	Durable Ticket
	// Tells are to be sent, as commands whose Source is this shard's log.
	Tells  []Tell
	Loaded []Loaded
	Pages  []Page
	Events []Event
}

// Loaded is an entity that the driver has requested by [Shard.Load]. Load returns it at once or, if
// the entity's record must be read first, it follows in [Effects.Loaded].
type Loaded struct {
	Entity string
	Found  bool   // the entity has state: it has committed, and has not ended
	State  []byte // not to be changed
	// Since are the events to be applied to State, in order. Not to be changed.
	Since   [][]byte
	Version uint64 // the number of its last commit
	Expires int64  // Unix time in milliseconds from which the entity is to be loaded again; 0 means never
	Form    uint32 // the version of State, by the type's directive; 0 means the first
	Sum     uint32 // the low 24 bits of the last commit's [Turn.Sum], the checksum of the state after Since; 0 means none
	Err     error  // why the record cannot be read; it names the entity
}

// An EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// Opened: the claim is complete and the shard is recovered. Calls may come.
	Opened EventKind = iota + 1
	// Reclaimed: after a conflict the shard was claimed again, and is still this home's.
	Reclaimed
	// Resent: the store had lost N appends that it had acknowledged to this home. They are appended
	// again.
	Resent
	// Orphaned: the store had lost N appends that it had acknowledged to older homes. This home has
	// their commits, and writes them to records by a checkpoint.
	Orphaned
	// Checkpointed: the log before Position is not needed any more.
	Checkpointed
	// DeadLetter: Tell was given up.
	DeadLetter
	// Untrimmed: the driver could not trim the log in the store, because of Err.
	Untrimmed
	// Ended: the shard is dropped. Answers and tells that wait for a ticket never leave.
	Ended
)

// An Event is news of the shard for the driver's log, metrics and coordinator.
type Event struct {
	Kind     EventKind
	N        int // Resent, Orphaned: how many appends
	Position store.Position
	Tell     Tell
	// Epoch of Ended is an epoch that the store has seen, at least as high as the shard's own. The
	// coordinator must use a higher one. 0 means that the shard found no such epoch.
	Epoch uint64
	// Err of Untrimmed is its reason. Err of Ended is why this process cannot open the shard by any
	// claim; nil if Epoch is set.
	Err error
}

// A Ticket is the number of an entry that a [Shard] appends, in the order of the log. Ticket 0 is
// durable from the beginning.
type Ticket uint64

// State is the stage of a shard's tenure at this home.
type State uint8

// The states of a shard.
const (
	Claiming State = iota // it is being claimed and recovered
	Open                  // calls may come
	Dropped               // its tenure has ended for good
)

// ErrTooLarge is returned for a commit that does not fit in one append. The turn has changed
// nothing.
var ErrTooLarge = errors.New("commit too large for one append (keep less in one entity, change less in one turn, or raise max_payload of the NATS server if it is below 1 MB)")

// ErrNotOpen is returned for a commit or a list at a home where the shard is not open. Only the
// next home knows whether the turn's command is applied.
var ErrNotOpen = errors.New("shard is not open at this home (send the command to the next home)")
