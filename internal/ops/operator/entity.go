package operator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// An Entity is what a node tells operators about one entity. Its encoded state is the message
// KindState in the output of shardgen contract proto.
type Entity struct {
	Kind   string            // its type
	ID     string            // as on the wire; "" in Inspect asks for all entities whose state cannot be read
	Node   transport.Address // the node where the entity lives
	Active bool              // the entity has a value in memory, so its state can be read
	State  []byte            // encoded; nil means that the entity has none or, in SetState, that its state is dropped
	Why    string            // why the state cannot be read; empty means it can
	JSON   string            // the state as JSON, for people; "" means that it has no JSON form, or is too large
	Bytes  uint64            // size of the encoded state; 0 means that there is none, or that the entity was not idle
	// Turn is the turn under way; nil means the entity is idle. The state is not shown during a
	// turn.
	Turn    *RunningTurn
	Mailbox uint32 // calls that wait for its turn
	// Errors are the entity's last failed calls at Node, the latest first. A node keeps each for an
	// hour, at most five of an entity, and those of 1,024 entities.
	Errors []Failure
	// Stored means that the entity is durable and passivated, and its state was read from the
	// store.
	Stored bool
}

// A Failure is a failed call of an entity. It contains neither the arguments nor the error's text.
type Failure struct {
	Method  string
	Outcome string        // for people
	Ago     time.Duration // since it failed
}

func (e Entity) isZero() bool {
	return e.Kind == "" && e.ID == "" && e.Node.IsZero() && !e.Active && e.State == nil && e.Why == "" && e.JSON == "" &&
		e.Bytes == 0 && e.Turn == nil && e.Mailbox == 0 && len(e.Errors) == 0 && !e.Stored
}

func (e Entity) toWire() *wire.AdminEntity {
	w := &wire.AdminEntity{
		Kind: e.Kind, Id: e.ID, Node: toWire(e.Node), Active: e.Active, State: e.State, Why: e.Why, Json: e.JSON, Bytes: e.Bytes, Mailbox: e.Mailbox,
		Stored: e.Stored,
	}
	for _, f := range e.Errors {
		w.Errors = append(w.Errors, &wire.AdminError{Method: f.Method, Outcome: f.Outcome, Nanos: uint64(f.Ago)})
	}
	if e.Turn != nil {
		w.Turn = turnToWire(*e.Turn)
	}
	return w
}

func entityFromWire(w *wire.AdminEntity) Entity {
	if w == nil {
		return Entity{}
	}
	e := Entity{
		Kind: w.GetKind(), ID: w.GetId(), Node: fromWire(w.GetNode()), Active: w.GetActive(), State: w.State, Why: w.GetWhy(), JSON: w.GetJson(),
		Bytes: w.GetBytes(), Mailbox: w.GetMailbox(), Stored: w.GetStored(),
	}
	for _, f := range w.GetErrors() {
		e.Errors = append(e.Errors, Failure{f.GetMethod(), f.GetOutcome(), time.Duration(f.GetNanos())})
	}
	if w.GetTurn() != nil {
		t := turnFromWire(w.GetTurn())
		e.Turn = &t
	}
	return e
}
