package durable

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

type pendingEntry struct {
	*wire.DurableEntry
	entity *entity // of a commit; nil means it is to be looked up
	size   int     // of its bytes
	// messages are the entry's messages if they may be reused once the entry is acknowledged; else
	// nil.
	messages *commitMessages
}

type batch struct {
	counter  uint64
	epoch    uint64         // of the home that appended it, if it is not own
	entries  []pendingEntry // nil once the batch is acknowledged
	data     []byte         // of the entries, one after the other; nil in a batch that another home appended
	commits  int            // how many entries
	own      bool           // appended by this tenure
	bare     bool           // recovered, without commits that records lack: a claim, or the append at since
	last     Ticket
	bytes    int
	position store.Position // known once the batch is acknowledged
}

// group appends pending entries to the log together (group commit).
//
// Invariants:
//  1. The tickets that are acknowledged, under way and pending are consecutive.
//  2. An append is under way only after the shard's claim, and at most one.
//  3. No append of several entries has more than limit bytes.
//  4. bytes is the size of all unacknowledged entries.
//  5. encoded has the bytes of the pending entries, and a batch's data those of its entries.
type group struct {
	line     line
	limit    int
	pending  []pendingEntry // tickets last-len+1 … last
	encoded  []byte         // the bytes of pending, one entry after the other
	spare    []pendingEntry // memory for the next pending
	bytes    int            // of entries that are not acknowledged
	queue    []batch        // numbered, and not acknowledged; the first is under way
	position store.Position // the last position of the log
	counter  uint64
	acked    Ticket
	last     Ticket
}

// Bounds of the memory kept for reuse: in bytes, and in entries.
const (
	keptRoom    = 16 << 10
	keptEntries = 512
)

func (g *group) add(e *wire.DurableEntry) Ticket {
	before := len(g.encoded)
	g.encoded = appendEntry(g.encoded, e, nil)
	return g.added(pendingEntry{DurableEntry: e, size: len(g.encoded) - before})
}

// added queues an entry that is already encoded at the end of g.encoded, and returns its ticket.
func (g *group) added(e pendingEntry) Ticket {
	g.pending = append(g.pending, e)
	g.last++
	g.bytes += e.size
	return g.last
}

func (g *group) next(d *desk, s *Shard) {
	if !g.line.idle() {
		return
	}
	cut := 0
	if len(g.queue) == 0 {
		b, ok := g.cut()
		if !ok {
			return
		}
		g.queue, cut = append(g.queue, b), b.bytes
	}
	b := &g.queue[0]
	sealed, data := sealAppend(&wire.DurableAppend{
		Format: formatNow, Epoch: s.config.Epoch, Incarnation: s.config.Incarnation,
		Claim: s.claim.number, Counter: b.counter,
	}, b.data)
	b.data = data
	if cut > 0 {
		g.encoded = g.encoded[:copy(g.encoded, g.encoded[cut:])]
	}
	if len(g.encoded) == 0 && cap(g.encoded) > keptRoom {
		g.encoded = nil
	}
	g.line.ask(d, Request{Op: OpAppend, Expect: g.position, Data: sealed, Commits: b.commits})
}

// cut makes a batch of the pending entries that fit in one append. It returns false if none is
// pending. The batch's data stay part of g.encoded.
func (g *group) cut() (batch, bool) {
	n, bytes := 0, 0
	for n < len(g.pending) && (n == 0 || appendRoom+bytes+g.pending[n].size <= g.limit) {
		bytes += g.pending[n].size
		n++
	}
	if n == 0 {
		return batch{}, false
	}
	g.counter++
	b := batch{
		counter: g.counter, entries: g.pending[:n], data: g.encoded[:bytes:bytes], commits: n, own: true,
		bytes: bytes, last: g.last - Ticket(len(g.pending)-n),
	}
	g.pending, g.spare = append(g.spare[:0], g.pending[n:]...), nil
	return b, true
}

func (g *group) reuse(entries []pendingEntry, m *messages) {
	for i := range entries {
		m.put(entries[i].messages)
	}
	clear(entries[:cap(entries)])
	if g.spare == nil && cap(entries) <= keptEntries {
		g.spare = entries[:0]
	}
}

func (g *group) acknowledge(p store.Position) batch {
	b := g.queue[0]
	if g.queue[0] = (batch{}); len(g.queue) == 1 {
		g.queue = g.queue[:0]
	} else {
		g.queue = g.queue[1:]
	}
	b.position = p
	g.bytes -= b.bytes
	g.position = max(g.position, p)
	g.acked = max(g.acked, b.last)
	return b
}

// resend queues lost batches before all other batches, so that they are appended again. The second
// acknowledgement of a lost batch has no effect on its commits, which are in memory or in records.
// The store cannot have lost these records without notice: the head is then marked as lost (see
// claim.lose).
func (g *group) resend(lost []batch) {
	for i := range lost {
		g.bytes += lost[i].bytes
	}
	g.queue = append(lost, g.queue...)
}

// repeats reports whether lost batches wait to be appended again.
func (g *group) repeats() bool { return len(g.queue) > 0 && g.queue[0].last <= g.acked }

// uncut makes the entries of the only queued batch pending again and halves the limit, because the
// store refused the batch as too large. It returns false and changes nothing if another batch is
// queued, if the batch has only one entry, or if the batch was in the log before.
func (g *group) uncut() bool {
	b := g.queue[0]
	if len(g.queue) > 1 || len(b.entries) == 1 || b.last <= g.acked {
		return false
	}
	g.pending = append(b.entries, g.pending...)
	g.encoded = slices.Concat(b.data, g.encoded)
	g.limit, g.queue = max(b.bytes/2, 1), nil
	g.counter--
	return true
}

func (g *group) check(open bool) error {
	waiting, bytes := len(g.pending), 0
	for i, b := range g.queue {
		if b.last > g.acked {
			waiting += len(b.entries)
		}
		if i > 0 && b.counter <= g.queue[i-1].counter {
			return fmt.Errorf("invariant 1: append number %d follows append number %d in the queue", b.counter, g.queue[i-1].counter)
		}
		if len(b.entries) > 1 && appendRoom+b.bytes > g.limit {
			return fmt.Errorf("invariant 3: an append of several entries has %d bytes, want at most %d", appendRoom+b.bytes, g.limit)
		}
		if len(b.data) != b.bytes {
			return fmt.Errorf("invariant 5: the data of a batch have %d bytes, but bytes is %d", len(b.data), b.bytes)
		}
		bytes += b.bytes
	}
	pending := 0
	for _, e := range g.pending {
		pending += e.size
	}
	if pending != len(g.encoded) {
		return fmt.Errorf("invariant 5: encoded has %d bytes, but the pending entries have %d", len(g.encoded), pending)
	}
	bytes += pending
	if bytes != g.bytes {
		return fmt.Errorf("invariant 4: bytes is %d, but the waiting entries have %d", g.bytes, bytes)
	}
	if g.acked+Ticket(waiting) != g.last {
		return fmt.Errorf("invariant 1: %d tickets acknowledged and %d waiting, but the last ticket is %d", g.acked, waiting, g.last)
	}
	if !g.line.idle() && (!open || len(g.queue) == 0) {
		return fmt.Errorf("invariant 2: an append is under way although open is %v and %d batches are queued", open, len(g.queue))
	}
	return nil
}
