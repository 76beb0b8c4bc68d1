package codegen

import (
	"errors"
	"time"
)

// A Journal is a field of a durable entity whose methods decide and record events. The events of a
// turn are committed together with its answer, and clients follow them. E is the type of the
// events: a struct, or an interface with cases (shard:oneof).
//
// The zero value works, also in an entity that is made by hand for a test. Only the goroutine that
// runs the entity's turn may use it.
type Journal[E any] struct {
	recorded []recorded[E]
	encode   func(b []byte, event E) ([]byte, error) // set by TakeEvents; nil in an entity that was made by hand
}

// A recorded is an event and its encoding. The event is encoded before Apply, because Apply may
// keep parts of the event in the state, where later changes of the state would change the event
// too.
type recorded[E any] struct {
	event   E
	encoded []byte
	err     error
}

var errNilEvent = errors.New("a nil event was recorded (pass Record an event of one of the interface's cases)")

// Record applies an event to the entity, and keeps the event, as it is now, for the commit of the
// turn. The entity must be the one that contains the journal. Apply must change the fields tagged
// state as the event says, and nothing else, and must not record events. The same events must
// always lead to the same state, because the runtime rebuilds the state from the events.
//
// A turn is refused if it changes state without recording an event, or if it records a nil event of
// an interface type. Under go test a turn is also refused if its events, applied to the state
// before the turn, do not lead to the state after the turn.
func (j *Journal[E]) Record(entity interface{ Apply(event E) }, event E) {
	r := recorded[E]{event: event}
	switch {
	case any(event) == nil:
		r.err = errNilEvent
	case j.encode != nil:
		r.encoded, r.err = j.encode([]byte{}, event)
	}
	if r.err == nil {
		entity.Apply(event)
	}
	j.recorded = append(j.recorded, r)
}

// Recorded returns the events not yet committed, in order. In an entity made by hand, these are all
// recorded events.
func (j *Journal[E]) Recorded() []E {
	all := make([]E, 0, len(j.recorded))
	for _, r := range j.recorded {
		all = append(all, r.event)
	}
	return all
}

// Events describes the journal of a durable type to the node that hosts it.
type Events struct {
	// Every is the number of events after which the whole state is written again; 0 means 1000.
	Every int
	// Age, Count and Followers select the events to keep: those younger than Age, the last Count of
	// the type, and those that a named follower has not read. If none is set, all events are kept.
	Age       time.Duration
	Count     uint64
	Followers bool
	// Take returns the recorded events, encoded, and removes them from the entity. It is called for
	// a new entity before any of its methods.
	Take func(entity any) ([][]byte, error)
	// Apply decodes an event and applies it.
	Apply func(entity any, event []byte) error
}

// TakeEvents returns the encoded events recorded in j and removes them from j. From then on j
// encodes events with encode. It fails if an event could not be encoded or is nil.
func TakeEvents[E any](j *Journal[E], encode func(b []byte, event E) ([]byte, error)) (all [][]byte, err error) {
	recorded := j.recorded
	j.recorded, j.encode = nil, encode
	for _, r := range recorded {
		if r.err != nil {
			return nil, r.err
		}
		all = append(all, r.encoded)
	}
	return all, nil
}
