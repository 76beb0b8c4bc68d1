package codegen

import "time"

// A Journal is a field of a durable entity whose methods decide and record events. The
// events of a turn are committed together with its answer, and clients follow them. E is
// the type of the events: a struct, or an interface with cases (shard:oneof).
//
// The zero value works, also in an entity that is made by hand for a test. It belongs to
// the goroutine that has the entity's turn.
type Journal[E any] struct{ recorded []E }

// Record applies an event to the entity that has the journal, and keeps it for the commit
// of the turn. Apply changes the fields tagged state as the event says, and nothing else: the
// same events must always give the same state, because the state is made again from them. It
// must not record events. The event must not be changed afterwards. State that changes otherwise
// refuses the turn.
func (j *Journal[E]) Record(entity interface{ Apply(event E) }, event E) {
	entity.Apply(event)
	j.recorded = append(j.recorded, event)
}

// Recorded returns the events that are not committed yet, in order; in an entity that was
// made by hand, all of them.
func (j *Journal[E]) Recorded() []E { return j.recorded }

// Events describe the journal of a durable type to the node that hosts it.
type Events struct {
	// Every is how many events may follow a state before it is written again; 0 means 1000.
	Every int
	// Age, Count and Followers say which events are kept: younger ones, the last Count of
	// the type, and those that a named follower has not read. Where none is set, all are.
	Age       time.Duration
	Count     uint64
	Followers bool
	// Take returns the events that were recorded, encoded, and forgets them.
	Take func(entity any) ([][]byte, error)
	// Apply decodes an event and applies it.
	Apply func(entity any, event []byte) error
}

// TakeEvents encodes the events that were recorded, and forgets them.
func TakeEvents[E any](j *Journal[E], encode func(b []byte, event E) ([]byte, error)) (all [][]byte, err error) {
	recorded := j.recorded
	j.recorded = nil
	for _, e := range recorded {
		b, err := encode([]byte{}, e)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}
