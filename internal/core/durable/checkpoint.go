package durable

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// checkpoint writes acknowledged commits to records, then the table, and the head last. Only drop
// and abandon stop a checkpoint.
type checkpoint struct {
	wanted bool   // another checkpoint is to begin
	after  Ticket // another checkpoint is wanted when this ticket is acknowledged; 0 means none
	active bool
	scope  scope // of the checkpoint under way
	keeps  bool  // the checkpoint under way does not move the head's Since, so entities stay in the tail: see lost
	anew   bool  // all Puts are repeated: see doubted
	more   bool  // records of entities or of the journal are written before the checkpoint's head: see Shard.base
	edit   *edit // of the catalog
	table  tableParts
	doubt  bool // an earlier copy of a repeated Put may still arrive at the store
	line   line
	puts   [][]store.Change // the first is under way
	all    [][]store.Change // puts, including the finished ones
	write  headWrite
	room   int // bytes left in the last of puts
	since  store.Position
	reach  uint64 // the counter of the append that the log must have under its head; 0 means none: see scopeOlder
}

func (c *checkpoint) may(s *Shard) bool {
	return s.state == Open && s.claim.step == stepNone && !s.group.repeats()
}

// next starts a checkpoint if one is due and none is active. It starts none while lost commits are
// being appended again, because the tail must keep the entities of these commits.
func (c *checkpoint) next(s *Shard) {
	if c.active || !c.may(s) {
		return
	}
	if c.after > 0 && c.after <= s.group.acked {
		c.wanted, c.after = true, 0
	}
	full := s.tail.bytes >= s.limits.TailBytes || s.tail.commits >= s.limits.TailCommits
	young := &s.tail.young
	half := young.partial == 0 && (young.bytes >= max(s.limits.TailBytes/2, 1) || young.commits >= max(s.limits.TailCommits/2, 1))
	switch moves := s.group.position > s.head.stored.Since; {
	case c.wanted && moves, full && moves && young.partial > 0:
		c.begin(s, scopeAll)
	case (full || half) && s.tail.boundary > s.head.stored.Since:
		c.begin(s, scopeOlder)
	case s.journal.isDue(s.desk.now):
		c.begin(s, scopeEvents)
	case half:
		s.tail.turn(s.group.position)
	}
	c.wanted = false
}

type scope uint8

const (
	scopeAll scope = iota
	// scopeOlder writes the commits that were acknowledged before the tail's present generation,
	// except those that later commits have replaced. So entities that commit often need not be
	// written just to trim the log. The head names the append that the log must reach: see young.
	scopeOlder
	// scopeEvents writes only the journal.
	scopeEvents
)

func (c *checkpoint) begin(s *Shard, what scope) {
	c.wanted, c.active, c.scope = false, true, what
	c.doubt, c.keeps, c.anew, c.edit = false, false, false, &edit{none: true}
	c.since, c.reach, c.puts, c.room = s.group.position, 0, nil, 0
	for _, change := range s.journal.begin(s.desk.now) {
		c.add(change)
	}
	c.more = len(c.puts) > 0 || len(s.journal.unsettled) > s.limits.TailCommits
	if what != scopeEvents {
		var saved []savedEntity
		for _, e := range s.tail.dirty() {
			if what == scopeOlder && s.tail.isYoung(e) && s.catalog.moved[e.id] == nil { // see docs/adr/0019: later commits do not repeat keys
				continue
			}
			s.ackedIndex(e) // while its state is in memory
			e.saving, c.more = e.acked.number, true
			s.absent.written(e.id)
			c.add(e.change(s.desk.now, s.limits.AppendBytes, s.config.Index.fields()))
			saved = append(saved, savedEntity{e, s.recorded(e)})
		}
		c.table = newTableParts(s)
		c.edit = s.catalog.begin(saved, what == scopeAll, slices.Sorted(maps.Keys(s.wakes.stale)))
	}
	switch what {
	case scopeOlder:
		c.since, c.reach = s.tail.boundary, s.tail.young.reach
	case scopeAll:
		s.tail.turn(c.since)
	default:
	}
	c.readLeaves(s)
}

func (c *checkpoint) add(change store.Change) {
	size := len(change.ID) + len(change.Value)
	if n := len(c.puts); n == 0 || len(c.puts[n-1]) == putRecords || c.room < size {
		c.puts, c.room = append(c.puts, nil), putBytes
	}
	last := len(c.puts) - 1
	c.puts[last] = append(c.puts[last], change)
	c.room -= size
}

// readLeaves reads the leaves that the edit changes, and then begins to write.
func (c *checkpoint) readLeaves(s *Shard) {
	if c.edit.reading() {
		c.line.ask(&s.desk, c.request(s))
		return
	}
	if !c.edit.none {
		for _, change := range c.edit.apply(&s.catalog, c.table.generation) {
			c.add(change)
		}
	}
	if c.scope != scopeEvents {
		for _, change := range c.table.changes(s, c.edit) {
			c.add(change)
		}
	}
	c.all = c.puts
	c.put(s)
}

// request returns the request that is under way or due.
func (c *checkpoint) request(s *Shard) Request {
	if c.edit.reading() {
		return Request{Op: OpGet, IDs: c.edit.next(&s.catalog), AtLeast: s.head.stored.Revision}
	}
	return Request{Op: OpPut, Head: s.head.stored, Changes: c.puts[0]}
}

func (c *checkpoint) haveLeaves(s *Shard, r Response) {
	switch {
	case r.Outcome != OK || !s.ours(r.Head):
		if s.state != Dropped && c.active { // the head that was read is stale
			c.line.again(&s.desk)
		}
	case c.edit.took(&s.catalog, r.Records):
		c.readLeaves(s)
	default:
		s.catalog.damaged()
		c.edit = &edit{none: true, of: c.edit.of}
		c.readLeaves(s)
	}
}

// tableParts are the parts of the shard's table, with all that was acknowledged when the checkpoint
// began.
type tableParts struct {
	generation uint64
	parts      []*wire.DurableTable
	bytes      int // of the last part
}

func newTableParts(s *Shard) tableParts {
	t := tableParts{generation: s.head.value.GetGeneration() + 1}
	for _, k := range s.table.parts(s.group.acked) {
		p := t.part(k)
		p.Sources = append(p.Sources, k)
	}
	for _, keys := range s.table.old.parts(s.desk.now) {
		p := t.part(keys)
		p.Keys = append(p.Keys, keys)
	}
	for _, o := range s.outbox.parts(s.group.acked) {
		p := t.part(o)
		p.Outboxes = append(p.Outboxes, o)
	}
	return t
}

// part returns the part of the table to which m is to be added. It begins a new part if m does not
// fit in the last one.
func (t *tableParts) part(m proto.Message) *wire.DurableTable {
	n := proto.Size(m) + appendRoom
	if len(t.parts) == 0 || t.bytes+n > partBytes {
		t.parts = append(t.parts, &wire.DurableTable{Format: formatNow, Generation: t.generation, Part: uint32(len(t.parts))})
		t.bytes = 0
	}
	t.bytes += n
	return t.parts[len(t.parts)-1]
}

// changes adds the directory of the catalog, and returns the changes that write the table's
// records.
func (t *tableParts) changes(s *Shard, ed *edit) (changes []store.Change) {
	c := &s.catalog
	for _, l := range ed.parts(c) {
		p := t.part(l)
		p.Leaves = append(p.Leaves, l)
	}
	if c.whole || ed.rebuild {
		t.part(&wire.DurableLeafAt{})
		t.parts[0].Catalog, t.parts[0].Due = true, s.earliest(ed)
		if t.parts[0].Indexes = unknownFields; c.indexed || ed.rebuild {
			t.parts[0].Indexes = s.config.Index.fields()
		}
	}
	for i, key := range tableKeys(t.generation, uint32(len(t.parts))) {
		changes = append(changes, store.Change{ID: key, Value: seal(t.parts[i])})
	}
	return changes
}

func (c *checkpoint) put(s *Shard) {
	if len(c.puts) > 0 {
		c.line.ask(&s.desk, c.request(s))
		return
	}
	c.line.close()
	switch {
	case c.scope == scopeEvents && c.doubt:
		// An earlier copy of a Put may still arrive, and would undo a later Put. Under a new head
		// the store refuses the copy.
		c.write.begin(&s.desk, s.head.replace(s.config, s.head.stored.Since, s.head.value.GetGeneration(), s.head.value.GetParts()), s.head)
		return
	case c.scope == scopeEvents:
		c.active, c.all = false, nil
		s.journal.written(s.desk.now)
		return
	}
	next := s.head.replace(s.config, c.since, c.table.generation, uint32(len(c.table.parts)))
	if c.reach > 0 && !c.keeps {
		next = next.needs(c.reach)
	}
	c.write.begin(&s.desk, next, s.head)
}

func (c *checkpoint) done(s *Shard, r Response) {
	c.doubt = c.doubt || r.Outcome == Uncertain
	if c.line.request.Op == OpGet && r.Outcome == NotApplied {
		c.line.later(&s.desk, Request{Op: OpHead}) // the head in the store may be older than AtLeast
		return
	}
	if !c.line.settled(&s.desk, r) {
		return
	}
	switch {
	case c.line.request.Op == OpGet:
		c.haveLeaves(s, r)
	case c.line.request.Op == OpHead: // after a conflict
		if r.Outcome != OK || s.ours(r.Head) {
			c.line.later(&s.desk, c.request(s))
		} else if s.state != Dropped { // the head that was read is stale
			c.line.again(&s.desk)
		}
	case r.Outcome == OK && c.anew:
		// Exactly the same Puts are sent again: under the same head, the store also accepts an
		// earlier copy that arrives late.
		c.puts, c.anew = c.all, false
		c.put(s)
	case r.Outcome == OK:
		c.puts = c.puts[1:]
		c.put(s)
	case r.Outcome == TooLarge:
		s.broken(refused("records", r))
	default:
		c.line.ask(&s.desk, Request{Op: OpHead})
	}
}

// lost keeps the head's Since in place, because the log has lost acknowledged commits. The log and
// the tail must keep their data until these commits are in the log again, or in records.
func (c *checkpoint) lost(s *Shard) {
	if c.active && c.scope != scopeEvents {
		c.since, c.keeps = s.head.stored.Since, true
	}
}

// doubted makes the active checkpoint write its records again, because the store may have lost
// them. If this checkpoint has already sent its head, the records are left to the next checkpoint,
// and the tail keeps their entities until then.
func (c *checkpoint) doubted() {
	switch {
	case !c.active:
	case c.write.due:
		c.keeps = true
	default:
		c.anew = true
	}
}

func (c *checkpoint) number() uint64 {
	if !c.write.due {
		return 0
	}
	return c.write.want.value.GetWrite()
}

// abandon ends the active checkpoint, if there is one, because the store has lost the head on which
// the checkpoint is based. abandon also requests another checkpoint.
func (c *checkpoint) abandon(s *Shard) {
	if c.active {
		s.tail.kept()
	}
	s.journal.unwritten(s.desk.now)
	*c = checkpoint{wanted: true, after: c.after}
}

func (c *checkpoint) sent() store.Position {
	if !c.write.due {
		return store.Start
	}
	return c.write.want.stored.Since
}

func (c *checkpoint) headDone(s *Shard, r Response) {
	written, other, err := c.write.done(&s.desk, s, r)
	switch {
	case err != nil:
		s.broken(err)
	case other != nil:
		if s.refuses(*other); s.state != Dropped {
			c.write.line.again(&s.desk) // until the claim knows more
		}
	case written != nil:
		s.head = *written
		if c.more {
			s.base = s.head.mark()
		}
		c.active, c.all = false, nil
		if c.keeps {
			s.journal.unwritten(s.desk.now)
		} else {
			s.journal.written(s.desk.now)
			if c.more {
				s.journal.settled()
			}
		}
		if c.scope == scopeEvents {
			return
		}
		s.catalog.written(s, c.edit)
		if c.keeps {
			s.tail.kept()
			c.wanted = c.wanted || c.scope == scopeAll
			if s.group.position <= s.head.stored.Since {
				s.advance()
			}
		} else {
			s.tail.saved(c.since, s.group.acked, &s.catalog)
		}
		s.out.Events = append(s.out.Events, Event{Kind: Checkpointed, Position: c.since})
		s.desk.send(Request{Op: OpTrim, Head: s.head.stored})
	}
}

// sweep finds deletable records for the next checkpoint: see [Expired]. The ids from the driver may
// be stale, so the sweep reads their records again under the present head.
type sweep struct {
	line line
	ids  []string
}

// Expired reports whether r is an entity's record that can be deleted at the time now: the entity
// has expired or ended, and its idempotency keys are too old. It returns the entity's id, for
// [Shard.Sweep]. It returns false for a record that cannot be decoded.
func Expired(now time.Time, r store.Record) (id string, gone bool) {
	id, ok := strings.CutPrefix(r.Key, entityKey(""))
	if !ok || r.Revision == store.None {
		return "", false
	}
	v, err := readRecord(id, r, "")
	return id, err == nil && v.spent(now)
}

// Sweep reads the records of the given entities, of which there are at most [store.MaxGet]. The
// next checkpoint deletes those of the records that are [Expired]. Entities in memory are skipped.
// Sweep returns false and reads nothing in these cases: an earlier Sweep is under way, the shard is
// not open or is being claimed again, or all the entities are in memory.
func (s *Shard) Sweep(now time.Time, ids []string) bool {
	s.desk.now = now
	if s.state != Open || s.claim.step != stepNone || !s.sweep.line.idle() {
		return false
	}
	s.sweep.ids = nil
	r := Request{Op: OpGet, AtLeast: s.head.stored.Revision}
	for _, id := range ids {
		if s.tail.entities[id] == nil { // entities in memory are judged when they are loaded or written
			s.sweep.ids, r.IDs = append(s.sweep.ids, id), append(r.IDs, entityKey(id))
		}
	}
	if len(r.IDs) == 0 {
		return false
	}
	s.sweep.line.ask(&s.desk, r)
	return true
}

func (w *sweep) done(s *Shard, r Response) {
	ids := w.ids
	w.line.close()
	w.ids = nil
	// If the head has changed, a checkpoint may have written newer records. A later sweep finds
	// these.
	if r.Outcome != OK || !s.ours(r.Head) || r.Head.Revision != s.head.stored.Revision {
		return
	}
	found := false
	for i, id := range ids {
		v, err := readRecord(id, r.Records[i], s.config.Index.fields())
		if err != nil || !v.spent(s.desk.now) || s.tail.entities[id] != nil {
			continue
		}
		e := s.tail.at(id)
		s.readIndex(e, &v)
		e.last, e.acked, e.loaded, e.listing, e.entered = v, v, true, listedIf(!v.ended), v.due()
		if !v.ended { // the commit removes its id from the catalog
			s.lapse(e)
			s.checkpoint.after = s.group.last
			continue
		}
		e.outlived(s.group.acked)
		found = true
	}
	switch {
	case !found, s.checkpoint.after > s.group.acked:
	case s.group.position > s.head.stored.Since:
		s.checkpoint.wanted = true
	default: // the checkpoint needs a later append to which it can move the head's Since
		s.checkpoint.after = s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}})
	}
}

// verify checks that the store still has all writes that it acknowledged before it became
// unreachable.
type verify struct {
	line line
	due  bool // the check begins when the shard is open: the store may have lost data after the claim read them
}

// Verify checks whether the store still has all that it has acknowledged. What the store may have
// lost is written again: the records of a checkpoint under way, and the journal since the last head.
// A shard that is being claimed is verified once it is open.
func (s *Shard) Verify(now time.Time) {
	s.desk.now = now
	switch s.state {
	case Open:
		s.beginVerify()
		s.next()
	case Claiming:
		s.verify.due = true
	}
}

func (s *Shard) beginVerify() {
	if s.group.acked == s.group.last && len(s.group.queue) == 0 {
		s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}})
	}
	s.checkpoint.doubted()
	s.journal.doubted(s.desk.now)
	s.verify = verify{}
	s.verify.line.ask(&s.desk, Request{Op: OpHead})
}

func (v *verify) done(s *Shard, r Response) {
	if !v.line.settled(&s.desk, r) {
		return
	}
	if r.Outcome != OK {
		v.line.again(&s.desk)
		return
	}
	if !s.ours(r.Head) {
		if s.state != Dropped { // another claim decides, or the head that was read is stale
			v.line.later(&s.desk, Request{Op: OpHead})
		}
		return
	}
	v.line.close()
}
