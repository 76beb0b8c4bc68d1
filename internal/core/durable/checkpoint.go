package durable

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// checkpoint writes acknowledged commits to records, then the table, and the head last. Only
// dropping the shard stops a checkpoint.
type checkpoint struct {
	wanted bool   // another checkpoint is to begin
	after  Ticket // another checkpoint is wanted when this ticket is acknowledged; 0 means none
	active bool
	scope  scope // of the one under way
	keeps  bool  // the one under way does not move since, so entities stay in the tail: see lost
	anew   bool  // all Puts are repeated: see doubted
	more   bool  // records of entities or of the journal are written before its head: see Shard.base
	doubt  bool  // a Put of it may still be on its way, beside its repetition
	line   line
	puts   [][]store.Change // the first is under way
	all    [][]store.Change // puts, including the finished ones
	write  headWrite
	since  store.Position
	parts  uint32
}

func (c *checkpoint) may(s *Shard) bool {
	return s.state == Open && s.claim.step == stepNone && !s.group.repeats()
}

// next does not start a checkpoint while lost commits are being appended again, because the tail
// must keep their entities.
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
	// scopeOlder covers the commits acknowledged when the tail's generation began, except replaced
	// ones. Hot entities then need not be rewritten just to trim the log.
	scopeOlder
	// scopeEvents: the journal alone.
	scopeEvents
)

func (c *checkpoint) begin(s *Shard, what scope) {
	c.wanted, c.active, c.scope = false, true, what
	c.doubt, c.keeps, c.anew = false, false, false
	c.since, c.puts = s.group.position, nil
	var put []store.Change
	bytes := 0
	add := func(change store.Change) {
		if len(put) == putRecords || len(put) > 0 && bytes+len(change.Value) > putBytes {
			c.puts, put, bytes = append(c.puts, put), nil, 0
		}
		put = append(put, change)
		bytes += len(change.ID) + len(change.Value)
	}
	for _, change := range s.journal.begin(s.desk.now) {
		add(change)
	}
	c.more = len(put) > 0 || len(s.journal.unsettled) > s.limits.TailCommits
	if what != scopeEvents {
		for _, e := range s.tail.dirty() {
			if what == scopeOlder && s.tail.isYoung(e) {
				continue
			}
			e.saving, c.more = e.acked.number, true
			s.absent.written(e.id)
			add(e.change(s.desk.now, s.limits.AppendBytes))
		}
		table := c.table(s)
		c.parts = uint32(len(table))
		for _, change := range table {
			add(change)
		}
	}
	switch what {
	case scopeOlder:
		c.since = s.tail.boundary
	case scopeAll:
		s.tail.turn(c.since)
	default:
	}
	if len(put) > 0 {
		c.puts = append(c.puts, put)
	}
	c.all = c.puts
	c.put(s)
}

func (c *checkpoint) table(s *Shard) (changes []store.Change) {
	generation := s.head.value.GetGeneration() + 1
	var parts []*wire.DurableTable
	bytes := 0
	part := func(m proto.Message) *wire.DurableTable {
		n := proto.Size(m) + appendRoom
		if len(parts) == 0 || bytes+n > partBytes {
			parts = append(parts, &wire.DurableTable{Format: formatNow, Generation: generation, Part: uint32(len(parts))})
			bytes = 0
		}
		bytes += n
		return parts[len(parts)-1]
	}
	for _, k := range s.table.parts(s.group.acked) {
		p := part(k)
		p.Sources = append(p.Sources, k)
	}
	for _, keys := range s.table.old.parts(s.desk.now) {
		p := part(keys)
		p.Keys = append(p.Keys, keys)
	}
	for _, o := range s.outbox.parts(s.group.acked) {
		p := part(o)
		p.Outboxes = append(p.Outboxes, o)
	}
	for i, key := range tableKeys(generation, uint32(len(parts))) {
		changes = append(changes, store.Change{ID: key, Value: seal(parts[i])})
	}
	return changes
}

func (c *checkpoint) put(s *Shard) {
	if len(c.puts) > 0 {
		c.line.ask(&s.desk, Request{Op: OpPut, Head: s.head.stored, Changes: c.puts[0]})
		return
	}
	c.line.close()
	switch {
	case c.scope == scopeEvents && c.doubt:
		// A Put that comes late would undo a later Put under this head, and so the head changes.
		c.write.begin(&s.desk, s.head.replace(s.config, s.head.stored.Since, s.head.value.GetGeneration(), s.head.value.GetParts()), s.head.mark())
		return
	case c.scope == scopeEvents:
		c.active, c.all = false, nil
		s.journal.written(s.desk.now)
		return
	}
	c.write.begin(&s.desk, s.head.replace(s.config, c.since, s.head.value.GetGeneration()+1, c.parts), s.head.mark())
}

func (c *checkpoint) done(s *Shard, r Response) {
	c.doubt = c.doubt || r.Outcome == Uncertain
	if !c.line.settled(&s.desk, r) {
		return
	}
	switch {
	case c.line.request.Op == OpHead: // after a conflict
		if r.Outcome != OK || s.ours(r.Head) {
			c.line.later(&s.desk, Request{Op: OpPut, Head: s.head.stored, Changes: c.puts[0]})
		} else if s.state != Dropped { // it was stale
			c.line.again(&s.desk)
		}
	case r.Outcome == OK && c.anew:
		// The same ones: an earlier Put in doubt may come late, and there is no head in between that refuses it.
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

// lost keeps the head's Since in place, because the log has lost acknowledged commits. The log
// and the tail must keep their data until the commits are appended again or in records.
func (c *checkpoint) lost(s *Shard) {
	if c.active && c.scope != scopeEvents {
		c.since, c.keeps = s.head.stored.Since, true
	}
}

// doubted makes the checkpoint write its records again, because the store may have lost them. If
// its head was already sent, the next checkpoint does so.
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

// abandon ends the active checkpoint because the store has lost its base head, and requests
// another.
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
		if c.keeps {
			s.tail.kept()
			c.wanted = c.wanted || c.scope == scopeAll
			if s.group.position <= s.head.stored.Since {
				s.advance()
			}
		} else {
			s.tail.saved(c.since, s.group.acked)
		}
		s.out.Events = append(s.out.Events, Event{Kind: Checkpointed, Position: c.since})
		s.desk.send(Request{Op: OpTrim, Head: s.head.stored})
	}
}

// sweep finds deletable records for the next checkpoint: see [Expired]. The driver's list may be
// stale, so the sweep reads them again under the present head.
type sweep struct {
	line line
	ids  []string
}

// Expired reports whether an entity's record can be deleted at a time: the entity has expired or
// ended, and its idempotency keys are too old. It returns the entity's id, for [Shard.Sweep]. It
// returns false for a record that cannot be decoded.
func Expired(now time.Time, r store.Record) (id string, gone bool) {
	id, ok := strings.CutPrefix(r.Key, entityKey(""))
	if !ok || r.Revision == store.None {
		return "", false
	}
	v, err := readRecord(id, r)
	return id, err == nil && v.spent(now)
}

// Sweep reads the records of the given entities, at most [store.MaxGet], and has the next
// checkpoint delete those that are [Expired]. It returns false, without reading, if an earlier
// Sweep is under way, the shard is not open, or all the entities are in memory.
func (s *Shard) Sweep(now time.Time, ids []string) bool {
	s.desk.now = now
	if s.state != Open || s.claim.step != stepNone || !s.sweep.line.idle() {
		return false
	}
	s.sweep.ids = nil
	r := Request{Op: OpGet, AtLeast: s.head.stored.Revision}
	for _, id := range ids {
		if s.tail.entities[id] == nil { // others are judged when they are loaded, or written
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
	// A checkpoint may have written other records since. They are found again.
	if r.Outcome != OK || !s.ours(r.Head) || r.Head.Revision != s.head.stored.Revision {
		return
	}
	found := false
	for i, id := range ids {
		v, err := readRecord(id, r.Records[i])
		if err != nil || !v.spent(s.desk.now) || s.tail.entities[id] != nil {
			continue
		}
		e := s.tail.at(id)
		e.last, e.acked, e.loaded = v, v, true // a Load before the next checkpoint has it lapse
		e.outlived(s.group.acked)
		found = true
	}
	switch {
	case !found:
	case s.group.position > s.head.stored.Since:
		s.checkpoint.wanted = true
	default: // a checkpoint needs something to move since to
		s.checkpoint.after = s.group.add(&wire.DurableEntry{Kind: &wire.DurableEntry_Empty{Empty: &wire.DurableEmpty{}}})
	}
}

// verify checks that the store still has what it acknowledged before it became unreachable.
type verify struct {
	line line
	due  bool // it begins when the shard is open: the claim may have read what was lost since
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
		if s.state != Dropped { // another claim decides, or it was stale
			v.line.later(&s.desk, Request{Op: OpHead})
		}
		return
	}
	v.line.close()
}
