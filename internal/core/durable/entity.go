package durable

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// version is the state of an entity after a commit.
type version struct {
	number uint64 // 0: the entity has never committed
	// expires is the Unix time in milliseconds from which the entity counts as ended; 0 means
	// never.
	expires int64
	form    uint32 // the version of state, by the type's directive; 0 means the first
	ended   bool
	sum     stateSum
	state   []byte
	since   [][]byte // events that are to be applied to state
	keys    []key    // not to be changed
	rare    *rare
}

// rare has the fields that few versions need. A rare is never changed, only replaced.
type rare struct {
	reminders *wire.DurableReminders // nil means none
	index     []byte                 // nil means unknown: see Shard.indexOf
}

func (v *version) reminders() *wire.DurableReminders {
	if v.rare == nil {
		return nil
	}
	return v.rare.reminders
}

func (v *version) index() []byte {
	if v.rare == nil {
		return nil
	}
	return v.rare.index
}

func (v *version) setRare(reminders *wire.DurableReminders, index []byte) {
	switch {
	case reminders == nil && index == nil:
		v.rare = nil
	case v.rare == nil || v.rare.reminders != reminders || !sameSlice(v.rare.index, index):
		v.rare = &rare{reminders, index}
	}
}

func sameSlice(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 && (a == nil) == (b == nil) || len(a) > 0 && &a[0] == &b[0])
}

// stateSum has the low 24 bits of the [Turn.Sum] of an entity's last commit, if the log has only
// that commit's events. Three bytes fit into a gap between other fields.
type stateSum [3]byte

const maxSum = 1<<24 - 1

func newStateSum(n uint32) stateSum { return stateSum{byte(n), byte(n >> 8), byte(n >> 16)} }

func (s stateSum) uint32() uint32 { return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 }

func (v *version) gone(now time.Time) bool {
	return v.ended || v.expires != 0 && now.UnixMilli() >= v.expires
}

// whole reports whether the version's commit is enough to recover it, without older commits or a
// record.
func (v *version) whole() bool { return len(v.since) == 0 && len(v.keys) == 0 }

// spent reports whether the record with this version can be deleted: the entity has ended or
// expired, and its idempotency keys are too old.
func (v *version) spent(now time.Time) bool {
	return v.number > 0 && v.gone(now) && len(freshKeys(v.keys, now.UnixMilli())) == 0
}

func (v *version) apply(c *wire.DurableCommit) {
	if c.GetFolded() {
		v.since = slices.Concat(v.since, c.GetEvents())
	} else {
		v.state, v.since = c.GetState(), nil
	}
	v.number, v.ended, v.expires, v.form = c.GetVersion(), c.GetEnded(), c.GetExpires(), c.GetForm()
	v.sum = newStateSum(c.GetSum())
	v.keys = keysAfter(v.keys, c)
	reminders, index := v.reminders(), v.index()
	if r := c.GetReminders(); r != nil || !c.GetFolded() {
		reminders = r
	}
	if c.GetEnded() {
		index = nil
	} else if c.GetIndex() != nil {
		index = c.GetIndex().GetKeys()
	}
	v.setRare(reminders, index)
}

// folds reports whether the log needs only the events of turn t, not the state. The parameter every
// bounds the number of events that may follow a written state. The parameter limit bounds the bytes
// of that state with these events.
func (v *version) folds(t *Turn, every, limit int) bool {
	if v.number == 0 || v.ended || t.Ended || v.form != t.Form || len(t.Events) == 0 || len(v.since)+len(t.Events) > every {
		return false
	}
	bytes, reminders := len(t.Index), v.reminders()
	if t.Reminders != nil {
		reminders = t.Reminders
	}
	for _, all := range [][][]byte{v.since, t.Events} {
		for _, e := range all {
			bytes += len(e) + appendRoom
		}
	}
	return bytes <= sinceBytes && appendRoom+len(t.Entity)+len(v.state)+sizeOfReminders(reminders)+bytes <= limit
}

// An entity is the part of an entity that a shard keeps in memory. The shard keeps it while the
// entity is active or has commits that its record lacks. The struct has 280 bytes on 64-bit
// machines. The fields that a commit reads first are in the first 64 bytes, because cache misses
// dominate the time of a commit.
type entity struct {
	id     string
	active bool // the driver has it in memory
	loaded bool // last is known: it came from the log, or its record was read
	bare   bool // its state is in its record only
	dirty  bool // acked is only in the log
	stale  bool // it is dirty only because its record is to be deleted; the deletion may wait
	// generation is the tail's generation in which the log got acked; 0 means an earlier one.
	generation uint8
	listing    listing // whether the catalog's leaves have its id
	ticket     Ticket  // of last
	saving     uint64  // its version that the checkpoint under way writes; 0 means none
	last       version // including commits that are not acknowledged yet
	acked      version // the acknowledged version, which a checkpoint writes
	entered    int64   // its due time in the catalog's leaves; 0 means unknown, and the constant never that it has none there
	// loose are commits from the log that need the state or the keys before them, which are in the
	// record.
	loose []*wire.DurableCommit
}

func (e *entity) commit(c *wire.DurableCommit, t Ticket) {
	e.last.apply(c)
	e.ticket, e.loaded, e.bare, e.stale = t, true, false, false
}

// ack records that the log has c, the entity's next commit.
func (e *entity) ack(c *wire.DurableCommit) {
	e.acked.apply(c)
	e.dirty = true
}

func (e *entity) recover(c *wire.DurableCommit) {
	if (c.GetFolded() || c.GetKeys() > 0) && (!e.loaded || len(e.loose) > 0) {
		e.loose = append(e.loose, c)
		return
	}
	e.loose = nil
	e.commit(c, 0)
	e.ack(c)
}

// base applies the loose commits to the record v. It skips commits that an unfinished checkpoint
// has already written to the record.
func (e *entity) base(v version) error {
	loose := e.loose
	e.loose = nil
	e.last, e.acked, e.loaded = v, v, true
	for _, c := range loose {
		switch {
		case c.GetVersion() <= v.number:
			e.dirty = true
			continue
		case c.GetFolded() && c.GetExpires() != 0 && e.last.lapsed():
			// The record was deleted after the entity had expired, so its state is unknown.
			e.last = version{number: c.GetVersion(), ended: true, keys: keysAfter(e.last.keys, c)}
			e.acked, e.dirty = e.last, true
			continue
		case c.GetFolded() && c.GetVersion() != e.last.number+1:
			return fmt.Errorf("%w: version %d of the entity (record: %d) is followed in the log by version %d", ErrCorrupt, e.last.number, v.number, c.GetVersion())
		}
		e.commit(c, 0)
		e.ack(c)
	}
	return nil
}

func (e *entity) needsRecord() bool {
	without := *e
	return without.base(version{}) != nil
}

func (v version) lapsed() bool { return v.number == 0 || v.ended }

// outlived marks an ended entity, so that the next checkpoint deletes its record.
func (e *entity) outlived(acked Ticket) {
	e.stale = e.stale || !e.dirty && e.ticket <= acked
	e.dirty = true
}

// saved ends a checkpoint for entity e, and reports whether the tail may forget e.
func (e *entity) saved(acked Ticket) bool {
	if e.saving != 0 && e.saving == e.acked.number {
		e.dirty, e.stale, e.generation = false, false, 0
	}
	e.saving = 0
	if e.dirty || e.ticket > acked {
		return false
	}
	e.forgetState()
	return !e.active
}

func (e *entity) forgetState() {
	if e.loaded && !e.last.ended {
		e.last.state, e.acked.state, e.bare = nil, nil, true
		e.last.since, e.acked.since = nil, nil
	}
}

func (e *entity) recordKey() string { return entityKey(e.id) }

func entityKey(id string) string { return "e" + id }

// EntityKey returns the key of the record of an entity, given its id.
func EntityKey(id string) string { return entityKey(id) }

// change returns the change that writes or deletes the entity's record. It omits the oldest
// idempotency keys if the record would exceed limit. An expired entity's record keeps its state
// until a commit ends the entity, for two reasons: the leaves may have the entity's index keys, and
// a commit under way may have only events, to be applied to that state. indexes is the type's
// [Index.Fields].
func (e *entity) change(now time.Time, limit int, indexes string) store.Change {
	v := e.acked
	keys := freshKeys(v.keys, now.UnixMilli())
	if v.ended && len(keys) == 0 {
		return store.Change{ID: e.recordKey()}
	}
	size := 2*appendRoom + len(e.id) + len(v.state) + sizeOfReminders(v.reminders()) + len(v.index())
	for _, event := range v.since {
		size += len(event) + appendRoom
	}
	for _, k := range keys {
		size += k.size()
	}
	for size > limit && len(keys) > 0 {
		size -= keys[0].size()
		keys = keys[1:]
	}
	if v.index() == nil {
		indexes = ""
	}
	return store.Change{ID: e.recordKey(), Value: seal(&wire.DurableRecord{
		Format: formatNow, Entity: []byte(e.id), Version: v.number, State: v.state, Since: v.since,
		Keys: wireKeys(keys), Ended: v.ended, Expires: v.expires, Form: v.form, Sum: v.sum.uint32(), Reminders: v.reminders(),
		Index: v.index(), Indexes: indexes,
	})}
}

// A Turn describes the changes made by a turn of an active entity.
type Turn struct {
	Entity string
	// State is the entity's encoded state; nil means one without fields. It is not copied.
	State []byte
	// Events are the events that the turn recorded, each encoded. If the state before and these
	// events give State, State stays out of the log; it is written again after [Journal.Every]
	// events. Events are not copied.
	Events [][]byte
	// Sum is a checksum of State. [Loaded.Sum] returns it if State stays out of the log; 0 means
	// none.
	Sum uint32
	// Ended: the entity ends, and has no state.
	Ended bool
	// Expires is the Unix time in milliseconds from which the entity counts as ended, unless it
	// commits before; 0 means never. Commit sets it to 0 if the entity has reminders.
	Expires int64
	// Reminders are the entity's reminders after the turn; nil means that they have not changed.
	// They are not copied.
	Reminders *wire.DurableReminders
	// Index has the keys of the entity in the type's indexes after the turn, if the type has
	// [Config.Index]. It is not copied.
	Index []byte
	// Form is the version of State, by the type's directive; 0 means the first.
	Form uint32
	// Command is the command that the turn ran; nil if it is never sent again.
	Command *Command
	Answer  []byte
	Tells   []Tell
}

// Commit appends the changes of a turn to the log. The turn's tells and answer may leave when the
// returned ticket is durable. After ErrTooLarge, the driver must restore the entity by Load, and
// Discard the command. ErrNotOpen means that the shard is not open, or the entity is not loaded.
// Commit does not keep t.
func (s *Shard) Commit(now time.Time, t *Turn) (Ticket, error) {
	s.desk.now = now
	e := s.tail.entities[t.Entity]
	if s.state != Open || e == nil || !e.loaded {
		return 0, t.notOpen()
	}
	m := s.messages.get()
	w := &m.commit
	w.Entity, w.Version, w.State, w.Ended, w.At = wire.BytesOf(e.id), e.last.number+1, t.State, t.Ended, now.UnixMilli()
	w.Form = t.Form
	if w.Events = t.Events; len(t.Events) > 0 {
		w.Event = s.journal.next
	}
	reminders := e.last.remindersAfter(t, now)
	if len(reminders.GetAll()) > 0 {
		t.Expires = 0
	}
	if !t.Ended {
		w.Expires = t.Expires
	}
	w.Folded = !e.bare && !e.last.gone(now) && e.last.folds(t, s.journal.config.Every, s.group.limit)
	if t.Ended || w.Folded {
		w.State = nil
	}
	if len(reminders.GetAll()) > 0 && !w.Folded || w.Folded && t.Reminders != nil {
		w.Reminders = reminders
	}
	if w.Folded {
		w.Sum = t.Sum & maxSum
	}
	if s.config.Index != nil {
		w.Index = s.indexAfter(e, t)
	}
	var from *known
	var source []byte
	if c := t.Command; c != nil {
		from = s.table.source(&c.Source, now)
		from.heard = now
		source = from.describe(&m.command, c)
		m.command.Answer, w.Command = t.Answer, &m.command
	}
	w.Keys = uint32(len(e.last.keys))
	m.kind.Commit, m.entry.Kind = w, &m.kind
	if len(t.Tells) > 0 {
		w.Tells = s.outbox.number(t.Tells, max(s.config.Epoch, s.config.FirstTell))
	}
	before := len(s.group.encoded)
	s.group.encoded = appendEntry(s.group.encoded, &m.entry, source)
	if n := len(s.group.encoded) - before + appendRoom + s.indexRoom(t, w); n > s.group.limit {
		s.group.encoded = s.group.encoded[:before]
		s.messages.put(m)
		return 0, t.tooLarge(n, s.group.limit)
	}
	s.journal.next += uint64(len(t.Events))
	added := pendingEntry{DurableEntry: &m.entry, entity: e, size: len(s.group.encoded) - before}
	if len(t.Tells)+len(t.Events) == 0 { // tells and events are kept; so are reminders, but not the message that refers to them
		added.messages = m
	}
	ticket := s.group.added(added)
	if e.listing != listed || t.Ended {
		s.catalog.note(e)
	}
	e.commit(w, ticket)
	if t.Reminders != nil || t.Ended {
		s.reminded(e)
	}
	if len(t.Tells) > 0 {
		s.outbox.put(w, now, ticket)
	}
	if w.Command != nil {
		s.table.end(from, w.Command, ticket)
	}
	s.next()
	return ticket, nil
}

// Separate functions make the errors of Commit, so that Commit needs less of its caller's stack:
// see docs/adr/0010.

//go:noinline
func (t *Turn) notOpen() error { return fmt.Errorf("commit: entity %q: %w", t.Entity, ErrNotOpen) }

//go:noinline
func (t *Turn) tooLarge(bytes, limit int) error {
	return fmt.Errorf("commit: entity %q: %w: %d bytes, want at most %d", t.Entity, ErrTooLarge, bytes, limit)
}
