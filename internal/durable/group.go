package durable

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Ticket numbers the entries that one [Shard] appends, in the order of the log. Zero is
// durable from the beginning.
type Ticket uint64

// appendRoom bounds the bytes of an append beside its entries.
const appendRoom = 64

// An encodedEntry is one of an append, with its bytes there.
type encodedEntry struct {
	*wire.DurableEntry
	data []byte
}

// encode returns the entry with its bytes, as a field of the append. A commit is encoded
// without the oneof around it, which the library encodes by reflection.
func encode(e *wire.DurableEntry) encodedEntry {
	outer, inner := protowire.SizeTag(entriesField), 0
	var m proto.Message = e
	if c := e.GetCommit(); c != nil {
		m, inner = c, protowire.SizeTag(commitField)
	}
	n := proto.Size(m)
	whole := n
	if inner > 0 {
		whole = inner + protowire.SizeBytes(n)
	}
	b := protowire.AppendTag(make([]byte, 0, outer+protowire.SizeBytes(whole)), entriesField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(whole))
	if inner > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, commitField, protowire.BytesType), uint64(n))
	}
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		panic(err) // as in seal
	}
	return encodedEntry{e, b}
}

// Fields of DurableAppend and DurableEntry.
const (
	entriesField = 6
	commitField  = 2
)

// A batch has the entries of one append.
type batch struct {
	counter  uint64
	entries  []encodedEntry // without messages once it is acknowledged
	commits  int            // how many entries
	own      bool           // appended by this tenure
	bytes    int
	last     Ticket
	position store.Position // once it is acknowledged
}

// shed forgets the messages of an acknowledged batch. Their bytes stay, in case that the
// log loses them.
func (b *batch) shed() {
	for i := range b.entries {
		b.entries[i].DurableEntry = nil
	}
}

// read is the opposite of shed.
func (b *batch) read() {
	for i, e := range b.entries {
		_, tag := protowire.ConsumeVarint(e.data)
		body, _ := protowire.ConsumeBytes(e.data[tag:])
		b.entries[i].DurableEntry = &wire.DurableEntry{}
		if err := proto.Unmarshal(body, b.entries[i].DurableEntry); err != nil {
			panic(err) // encode wrote it
		}
	}
}

// A group appends pending entries. One append is under way, and the entries that come
// meanwhile go into the next.
//
// Invariants:
//  1. Tickets that are acknowledged, under way and pending follow each other.
//  2. An append is under way only after the shard's claim, and at most one.
//  3. No append of several entries has more than limit bytes.
//  4. bytes is the sum of the waiting entries.
type group struct {
	line     line
	limit    int
	pending  []encodedEntry // tickets last-len+1 … last
	bytes    int            // of entries that are not acknowledged
	queue    []batch        // numbered, and not acknowledged; the first is under way
	position store.Position // the log's last
	counter  uint64
	acked    Ticket
	last     Ticket
}

// add has e appended.
func (g *group) add(e encodedEntry) Ticket {
	g.pending = append(g.pending, e)
	g.last++
	g.bytes += len(e.data)
	return g.last
}

// next begins an append if none is under way and there is something to append.
func (g *group) next(d *desk, s *Shard) {
	if !g.line.idle() {
		return
	}
	if len(g.queue) == 0 {
		b, ok := g.cut()
		if !ok {
			return
		}
		g.queue = append(g.queue, b)
	}
	b := g.queue[0]
	g.line.ask(d, Request{Op: OpAppend, Expect: g.position, Data: sealAppend(&wire.DurableAppend{
		Format: formatNow, Epoch: s.config.Epoch, Incarnation: s.config.Incarnation,
		Claim: s.claim.number, Counter: b.counter,
	}, b)})
}

// cut takes the pending entries that fit in one append.
func (g *group) cut() (batch, bool) {
	n, bytes := 0, 0
	for n < len(g.pending) && (n == 0 || appendRoom+bytes+len(g.pending[n].data) <= g.limit) {
		bytes += len(g.pending[n].data)
		n++
	}
	if n == 0 {
		return batch{}, false
	}
	g.counter++
	b := batch{counter: g.counter, entries: g.pending[:n:n], commits: n, own: true, bytes: bytes, last: g.last - Ticket(len(g.pending)-n)}
	g.pending = g.pending[n:]
	return b, true
}

// acknowledge takes the first batch of the queue, which is in the log at p.
func (g *group) acknowledge(p store.Position) batch {
	b := g.queue[0]
	g.queue = g.queue[1:]
	b.position = p
	g.bytes -= b.bytes
	g.position = max(g.position, p)
	g.acked = max(g.acked, b.last)
	return b
}

// resend has appends that the log has lost appended again, before all others.
func (g *group) resend(lost []batch) {
	for i := range lost {
		lost[i].read()
		g.bytes += lost[i].bytes
	}
	g.queue = append(lost, g.queue...)
}

// uncut makes the only batch of the queue pending again, so that less is appended at once.
// Reports false for a batch of one entry, and for one that was in the log before.
func (g *group) uncut() bool {
	b := g.queue[0]
	if len(g.queue) > 1 || len(b.entries) == 1 || b.last <= g.acked {
		return false
	}
	g.pending = append(b.entries, g.pending...)
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
			return fmt.Errorf("invariant 1: append %d behind append %d", b.counter, g.queue[i-1].counter)
		}
		if len(b.entries) > 1 && appendRoom+b.bytes > g.limit {
			return fmt.Errorf("invariant 3: an append of %d bytes, want at most %d", appendRoom+b.bytes, g.limit)
		}
		bytes += b.bytes
	}
	for _, e := range g.pending {
		bytes += len(e.data)
	}
	if bytes != g.bytes {
		return fmt.Errorf("invariant 4: %d bytes wait, counted %d", g.bytes, bytes)
	}
	if g.acked+Ticket(waiting) != g.last {
		return fmt.Errorf("invariant 1: %d acknowledged and %d waiting of %d", g.acked, waiting, g.last)
	}
	if !g.line.idle() && (!open || len(g.queue) == 0) {
		return fmt.Errorf("invariant 2: an append under way, open %v, queue of %d", open, len(g.queue))
	}
	return nil
}
