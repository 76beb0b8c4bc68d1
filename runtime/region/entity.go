package region

import "github.com/shardgen/shardgen/runtime/codegen"

// An Entity is one entity of a shard: active with a Value, passivated with its
// encoded State, or both nil when the next call makes it fresh.
//
// Value, State and Why belong to whoever holds the turn; everything else to the
// shard's lock.
type Entity struct {
	ID    string
	Value any
	State []byte
	// Why says what the next activation tells the entity.
	Why codegen.Activation

	turn     *Call // the call whose turn it is; nil when idle or when anonymous
	busy     bool
	orphan   bool   // the shard was lost during this turn: End counts for nothing
	lastUsed uint32 // driver's coarse clock
	mailbox  queue
}

// Busy tells whether a turn is under way.
func (e *Entity) Busy() bool { return e.busy }

// Turn is the call whose turn is under way; nil when there is none or when it
// began by Begin.
func (e *Entity) Turn() *Call { return e.turn }

// Mailbox is the number of calls that wait.
func (e *Entity) Mailbox() int { return e.mailbox.n }
