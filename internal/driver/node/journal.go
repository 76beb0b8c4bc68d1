package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

func journalOf(e *codegen.Events, shards int) durable.Journal {
	j := durable.Journal{On: true, Every: e.Every, Age: e.Age, Followers: e.Followers}
	if e.Count > 0 {
		j.Events = max(e.Count/uint64(max(shards, 1)), 1)
	}
	return j
}

var errNotRecorded = errors.New("the turn changed the state without an event (change the state in Apply alone, and record the events that Apply needs)")

var errOtherState = errors.New("the turn left a state that its events do not give (change the state in Apply alone, and let Apply use only the state and the event)")

// foldEvents applies events to a state, and returns a panic of Apply as an error.
func foldEvents(h *codegen.Host, id string, state []byte, events [][]byte) (folded []byte, err error) {
	if len(events) == 0 {
		return state, nil
	}
	if h.Events == nil {
		return nil, errors.New("the type has a journal in the store, but no journal in this program (keep its field of type shard.Journal)")
	}
	defer func() {
		if r := recover(); r != nil {
			folded, err = nil, fmt.Errorf("%w in Apply: %v", ErrPanic, r)
		}
	}()
	return restate(h, id, state, func(entity any) error {
		for i, e := range events {
			if err := h.Events.Apply(entity, e); err != nil {
				return notFolded(h, id, i, len(events), err)
			}
		}
		return nil
	})
}

func notFolded(h *codegen.Host, id string, at, of int, err error) error {
	err = fmt.Errorf("%s/%s: event %d of %d: %w", h.Name, clip(id), at+1, of, err)
	var unread *codegen.DecodeError
	if errors.As(err, &unread) {
		err = fmt.Errorf("%w (the state and the events are kept as they are: run the program that recorded the event, or a later one, on this node too)", err)
	}
	return err
}

// restate changes an encoded state. It keeps fields that this program does not know.
func restate(h *codegen.Host, id string, state []byte, change func(entity any) error) ([]byte, error) {
	entity := h.New()
	if h.SetID != nil {
		if err := h.SetID(entity, id); err != nil {
			return nil, err
		}
	}
	skipped, err := h.DecodeState(entity, state)
	if err != nil {
		return nil, err
	}
	if err := change(entity); err != nil {
		return nil, err
	}
	changed, err := h.AppendState([]byte{}, entity)
	if err == nil && skipped {
		changed = codegen.AppendUnknown(changed, codegen.UnknownFields(state, h.StateFields), h.StateFields)
	}
	return changed, err
}

// stateSum returns a checksum of 24 bits for [durable.Turn]; 0 means none. Its upper 12 bits
// identify the contract, because another contract may encode the same state differently.
func stateSum(h *codegen.Host, state []byte) uint32 {
	if h.Events == nil || h.Contract == "" {
		return 0
	}
	const half = 1<<12 - 1
	return uint32(xxhash.Sum64String(h.Contract)&half<<12 | xxhash.Sum64(state)&half)
}

// strayed reports whether a loaded entity's events give another state than the entity's last turn
// left. It compares checksums of the two states. If the last turn ran under another contract, the
// checksums cannot be compared, and strayed reports false.
func strayed(h *codegen.Host, loaded *durable.Loaded) bool {
	sum := stateSum(h, loaded.State)
	return len(loaded.Since) > 0 && loaded.Sum != 0 && loaded.Sum>>12 == sum>>12 && loaded.Sum != sum
}

var errReadRecorded = errors.New("a method marked //shard:read has recorded an event (remove the mark)")

// An eventTaker takes the events that turns of a durable type's entities recorded.
type eventTaker struct {
	host    *codegen.Host
	checked bool // check that applying a turn's events gives the state that the turn left
}

// collect takes the events of a turn. before and after are the encoded states around the turn.
// collect fails if they differ although there is no event. If t.checked is set, it also fails if
// the events do not lead from before to after. For a //shard:read method (read is set), it fails if
// there is an event, and does not use after.
func (t eventTaker) collect(value any, before, after []byte, read bool, id string) (events [][]byte, err error) {
	h := t.host
	if h.Events == nil || value == nil {
		return nil, nil
	}
	if events, err = h.Events.Take(value); err != nil {
		return nil, fmt.Errorf("encode an event: %w (correct the value)", err)
	}
	switch {
	case read && len(events) > 0:
		return nil, errReadRecorded
	case !read && len(events) == 0 && !bytes.Equal(before, after):
		return nil, errNotRecorded
	}
	if read || len(events) == 0 || !t.checked {
		return events, nil
	}
	folded, err := foldEvents(h, id, before, events)
	if err == nil && !bytes.Equal(folded, after) {
		err = errOtherState
	}
	return events, err
}

// Unanswered reports whether a request to the store that failed with err may succeed later, or may
// have succeeded although its answer was lost. It reports false for all other errors, such as a
// missing right or an answer that cannot be decoded.
func Unanswered(err error) bool {
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	for _, passing := range []error{store.ErrUnavailable, store.ErrUncertain, store.ErrBusy} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
