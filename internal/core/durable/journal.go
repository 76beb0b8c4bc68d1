package durable

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// Journal configures whether and for how long the events of a type's entities are kept. An event is
// deleted when none of Age, Events and Followers requires it; if none of the three is set, all
// events are kept.
type Journal struct {
	On bool // the type has a journal
	// Every is how many events may follow a state, in the log and in a record, before the state is
	// written again. Default 1000.
	Every     int
	Age       time.Duration // keep events that are younger
	Events    uint64        // keep this many of the shard's latest events
	Followers bool          // keep events that a named follower has not read
}

// Bounds of the journal's records.
const (
	everyEvents = 1000
	sinceBytes  = 64 << 10  // of the events that follow a state
	chunkBytes  = 256 << 10 // of a chunk of several events
	chunkFull   = 16 << 10  // of a chunk to which later writes add nothing
	dropChunks  = 64        // chunks that are deleted at once
)

const journalKey = "j"

func chunkKey(chunk uint64) string { return fmt.Sprintf("j%d", chunk) }

// journal numbers the events of a shard's commits without gaps, in log order. Events wait in
// memory until a Put has written them to a chunk.
//
// The chunks follow from the log alone: if a home dies before writing the index, the next home
// writes the chunk again.
//
// Invariants:
//  1. Numbers of waiting events follow the index's number, without gaps.
//  2. next is above the number of each waiting event.
type journal struct {
	config  Journal
	pause   time.Duration
	next    uint64               // the number of the next event that is recorded
	index   *wire.DurableJournal // as it was written last
	waiting []*wire.DurableEvent // in the log, and not in chunks
	// base is the index that was written before the shard's head, and unsettled has the events that
	// were written to chunks after base. A server may lose these events and keep the head: see doubted.
	base      *wire.DurableJournal
	unsettled []*wire.DurableEvent
	due       time.Time          // when the waiting events are to be written; zero means nothing waits
	open      *wire.DurableChunk // the last chunk, when this home wrote it

	ends map[uint64]chunkEnd // the last events of chunks, as far as known; nil if all events are kept
	line line                // reads the oldest chunk
	read uint64              // the last event that all named followers have read

	// The index and the last chunk after the Put that is under way, and how many of waiting
	// it writes.
	writing *wire.DurableJournal
	adding  *wire.DurableChunk
	count   int
	doubt   bool // what was written after base is written again after this Put
}

type chunkEnd struct {
	number uint64
	at     int64
}

func newJournal(c Journal, pause time.Duration) journal {
	if c.Every <= 0 {
		c.Every = everyEvents
	}
	j := journal{config: c, pause: pause, next: 1, index: &wire.DurableJournal{Format: formatNow, First: 1}}
	j.base = j.index
	if c.Age > 0 || c.Events > 0 || c.Followers {
		j.ends = map[uint64]chunkEnd{}
	}
	return j
}

func (j *journal) recover(r store.Record) error {
	if r.Revision == store.None {
		return nil
	}
	index, err := readIndex(r)
	if err != nil {
		return err
	}
	j.index, j.base, j.next = index, index, index.GetNumber()+1
	return nil
}

func readIndex(r store.Record) (*wire.DurableJournal, error) {
	index := &wire.DurableJournal{}
	if err := unseal(r.Value, index); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return index, nil
}

// ack adds the events of a commit. It skips events that the journal already has, because a lost
// commit can come to the log again.
func (j *journal) ack(c *wire.DurableCommit, now time.Time) {
	if !j.config.On {
		return
	}
	last := j.index.GetNumber()
	if n := len(j.waiting); n > 0 {
		last = j.waiting[n-1].GetNumber()
	}
	for i, event := range c.GetEvents() {
		number := c.GetEvent() + uint64(i)
		j.next = max(j.next, number+1)
		if number <= last {
			continue
		}
		j.waiting = append(j.waiting, &wire.DurableEvent{
			Number: number, Entity: c.GetEntity(), Version: c.GetVersion(), At: c.GetAt(), Event: event,
		})
	}
	if len(j.waiting) > 0 && j.due.IsZero() {
		j.due = now.Add(j.pause)
	}
}

func (j *journal) isDue(now time.Time) bool {
	return !j.due.IsZero() && !now.Before(j.due) || j.expired(now) > 0
}

func (j *journal) expired(now time.Time) (n uint64) {
	if j.ends == nil {
		return 0
	}
	for first := j.index.GetFirst(); first+n < j.index.GetLast() && n < dropChunks; n++ {
		end, known := j.ends[first+n]
		c := j.config
		if !known || c.Age > 0 && now.Sub(time.UnixMilli(end.at)) < c.Age ||
			c.Events > 0 && j.index.GetNumber()-end.number < c.Events ||
			c.Followers && !j.passed(end.number) {
			break
		}
	}
	return n
}

// passed reports whether all named followers have read an event behind event number. So the last
// event that all followers have read does not count as passed. It is kept because it proves that
// the journal is still the same. If the followers are beyond the journal's last event, nothing
// counts as passed.
func (j *journal) passed(number uint64) bool { return number < j.read && j.read <= j.index.GetNumber() }

// look reads the oldest chunk if its last event is unknown, to decide when the chunk may be
// deleted.
func (j *journal) look(s *Shard) {
	first := j.index.GetFirst()
	if j.ends == nil || first >= j.index.GetLast() || !j.line.idle() {
		return
	}
	if _, known := j.ends[first]; !known {
		j.line.ask(&s.desk, Request{Op: OpGet, IDs: []string{chunkKey(first)}, AtLeast: s.head.stored.Revision})
	}
}

func (j *journal) looked(s *Shard, r Response) {
	if !j.line.settled(&s.desk, r) {
		return
	}
	if r.Outcome != OK || !s.ours(r.Head) {
		if s.state != Dropped {
			j.line.again(&s.desk)
		}
		return
	}
	j.line.close()
	// A missing chunk was deleted by a home that died before counting the deletion.
	end := chunkEnd{}
	if r.Records[0].Revision != store.None {
		chunk := &wire.DurableChunk{}
		if err := unseal(r.Records[0].Value, chunk); err != nil || len(chunk.GetEvents()) == 0 {
			return // the chunk stays: unreadable events are not deleted
		}
		last := chunk.GetEvents()[len(chunk.GetEvents())-1]
		end = chunkEnd{last.GetNumber(), last.GetAt()}
	}
	j.ends[j.index.GetFirst()] = end
}

func (j *journal) begin(now time.Time) (changes []store.Change) {
	if !j.config.On {
		return nil
	}
	j.writing = proto.CloneOf(j.index)
	for range j.expired(now) {
		changes = append(changes, store.Change{ID: chunkKey(j.writing.First)})
		j.writing.First++
	}
	j.count = len(j.waiting)
	if j.count == 0 && len(changes) == 0 {
		j.writing = nil
		return nil
	}
	changes = append(changes, j.chunks()...)
	return append(changes, store.Change{ID: journalKey, Value: seal(j.writing)})
}

func (j *journal) chunks() (changes []store.Change) {
	open := &wire.DurableChunk{}
	bytes := 0
	if j.open != nil {
		open, bytes = proto.CloneOf(j.open), proto.Size(j.open)
	}
	if bytes == 0 || bytes >= chunkFull {
		open, bytes = nil, 0
	}
	shut := func() {
		if open != nil {
			changes = append(changes, store.Change{ID: chunkKey(open.GetChunk()), Value: seal(open)})
		}
	}
	for _, e := range j.waiting {
		n := protowire.SizeTag(3) + protowire.SizeBytes(proto.Size(e))
		if open == nil || bytes+n > chunkBytes {
			shut()
			j.writing.Last++
			open, bytes = &wire.DurableChunk{Format: formatNow, Chunk: j.writing.Last}, 0
		}
		open.Events = append(open.Events, e)
		bytes += n
		j.writing.Number = e.GetNumber()
		if j.ends != nil {
			j.ends[open.GetChunk()] = chunkEnd{e.GetNumber(), e.GetAt()}
		}
	}
	if j.count > 0 {
		shut()
	}
	j.adding = open
	return changes
}

func (j *journal) written(now time.Time) {
	if j.writing == nil {
		return
	}
	if j.doubt {
		j.unwritten(now)
		return
	}
	for chunk := j.index.GetFirst(); chunk < j.writing.GetFirst(); chunk++ {
		delete(j.ends, chunk)
	}
	j.index, j.writing = j.writing, nil
	if j.count > 0 {
		j.open, j.adding = j.adding, nil
	}
	j.unsettled = append(j.unsettled, j.waiting[:j.count]...)
	j.waiting = append([]*wire.DurableEvent(nil), j.waiting[j.count:]...)
	j.count, j.due = 0, time.Time{}
	if len(j.waiting) > 0 {
		j.due = now.Add(j.pause)
	}
}

// unwritten ends a Put whose events do not count as written.
func (j *journal) unwritten(now time.Time) {
	j.writing, j.adding, j.count = nil, nil, 0
	if j.doubt {
		j.doubted(now)
	}
}

// settled records that the shard's head was written after the journal's index. A server of the store
// that has this head therefore has the index too.
func (j *journal) settled() { j.base, j.unsettled = j.index, nil }

// doubted makes the journal write all chunks behind base again, because the store may have lost
// some of them. The index in the store may hide the loss, because a delayed copy of an earlier Put
// may write the index after the loss.
func (j *journal) doubted(now time.Time) {
	if j.doubt = j.writing != nil; j.doubt {
		return
	}
	j.index, j.open = j.base, nil
	j.waiting, j.unsettled = append(j.unsettled, j.waiting...), nil
	if len(j.waiting) > 0 {
		j.due = now
	}
}

func (j *journal) check() error {
	last := j.index.GetNumber()
	for _, e := range j.waiting {
		if e.GetNumber() != last+1 {
			return fmt.Errorf("invariant 1 of the journal: event %d follows event %d", e.GetNumber(), last)
		}
		last++
	}
	if j.config.On && j.next <= last {
		return fmt.Errorf("invariant 2 of the journal: next is %d, but event %d exists", j.next, last)
	}
	return nil
}
