package durable

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A version is an entity after one of its commits.
type version struct {
	number uint64 // 0: it never was
	state  []byte
	ended  bool
}

// An entity is one that is active, or whose last commit is not in a record.
type entity struct {
	id     string
	last   version // with what is not acknowledged yet
	ticket Ticket  // of last
	acked  version // what a checkpoint writes
	dirty  bool    // acked is in the log alone
	saving uint64  // its version that the checkpoint under way writes; 0: none
	active bool    // the driver has it
	loaded bool    // last is known: it came from the log, or its record was read
	bare   bool    // its state is in its record only
}

// commit notes a commit that is pending.
func (e *entity) commit(c *wire.DurableCommit, t Ticket) {
	e.last = version{c.GetVersion(), c.GetState(), c.GetEnded()}
	e.ticket, e.loaded, e.bare = t, true, false
}

// ack notes that a commit is in the log. One that came there a second time, because a
// server had lost it, changes nothing.
func (e *entity) ack(c *wire.DurableCommit) {
	if c.GetVersion() < e.acked.number && !e.acked.ended {
		return
	}
	e.acked, e.dirty = version{c.GetVersion(), c.GetState(), c.GetEnded()}, true
}

// recover notes a commit that was read from the log.
func (e *entity) recover(c *wire.DurableCommit) {
	e.commit(c, 0)
	e.ack(c)
}

// saved ends a checkpoint. Reports whether the entity is to be forgotten here.
func (e *entity) saved(acked Ticket) bool {
	if e.saving != 0 && e.saving == e.acked.number {
		e.dirty = false
	}
	e.saving = 0
	if e.dirty || e.ticket > acked {
		return false
	}
	e.forgetState()
	return !e.active
}

// forgetState leaves the state to the record.
func (e *entity) forgetState() {
	if e.loaded && !e.last.ended {
		e.last.state, e.acked.state, e.bare = nil, nil, true
	}
}

// key is the entity's record's.
func (e *entity) key() string { return entityKey(e.id) }

func entityKey(id string) string { return "e" + id }

// change is what a checkpoint writes of it.
func (e *entity) change() store.Change {
	if e.acked.ended {
		return store.Change{ID: e.key()}
	}
	return store.Change{ID: e.key(), Value: seal(&wire.DurableRecord{
		Format: formatNow, Entity: []byte(e.id), Version: e.acked.number, State: e.acked.state,
	})}
}
