package durable

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// A Ticket numbers what is to be appended by one [Shard], in the order of the log. Zero is
// durable from the beginning.
type Ticket uint64

// appendRoom is what an append has beside its entries, at most.
const appendRoom = 64

// A batch is what one append has.
type batch struct {
	counter  uint64
	entries  []*wire.DurableEntry
	commits  int  // how many entries
	own      bool // appended by this tenure
	bytes    int
	last     Ticket
	position store.Position // once it is acknowledged
}

// A group appends what is pending: one append under way, and all that came meanwhile in
// the next.
//
// Invariants:
//  1. Tickets that are acknowledged, under way and pending follow each other.
//  2. An append is under way only after the shard's claim, and at most one.
//  3. No append of several entries has more than limit bytes.
//  4. bytes is the sum of what waits.
type group struct {
	line     line
	limit    int
	pending  []*wire.DurableEntry // tickets last-len+1 … last
	sizes    []int                // of pending
	bytes    int                  // of what is not acknowledged
	queue    []batch              // numbered, and not acknowledged; the first is under way
	position store.Position       // the log's last
	counter  uint64
	acked    Ticket
	last     Ticket
}

// size is what an entry takes in an append.
func size(e *wire.DurableEntry) int {
	return protowire.SizeTag(6) + protowire.SizeBytes(proto.Size(e))
}

// add has e appended.
func (g *group) add(e *wire.DurableEntry, bytes int) Ticket {
	g.pending, g.sizes = append(g.pending, e), append(g.sizes, bytes)
	g.last++
	g.bytes += bytes
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
	g.line.ask(d, Request{Op: OpAppend, Expect: g.position, Data: seal(&wire.DurableAppend{
		Format: formatNow, Epoch: s.config.Epoch, Incarnation: s.config.Incarnation,
		Claim: s.claim.number, Counter: b.counter, Entries: b.entries,
	})})
}

// cut takes what fits in one append from what is pending.
func (g *group) cut() (batch, bool) {
	n, bytes := 0, 0
	for n < len(g.pending) && (n == 0 || appendRoom+bytes+g.sizes[n] <= g.limit) {
		bytes += g.sizes[n]
		n++
	}
	if n == 0 {
		return batch{}, false
	}
	g.counter++
	b := batch{counter: g.counter, entries: g.pending[:n:n], commits: n, own: true, bytes: bytes, last: g.last - Ticket(len(g.pending)-n)}
	g.pending, g.sizes = g.pending[n:], g.sizes[n:]
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
	for _, b := range lost {
		g.bytes += b.bytes
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
	sizes := make([]int, len(b.entries))
	for i, e := range b.entries {
		sizes[i] = size(e)
	}
	g.pending = append(b.entries, g.pending...)
	g.sizes = append(sizes, g.sizes...)
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
	for _, n := range g.sizes {
		bytes += n
	}
	if bytes != g.bytes {
		return fmt.Errorf("invariant 4: %d bytes wait, counted %d", g.bytes, bytes)
	}
	if g.acked+Ticket(waiting) != g.last || len(g.pending) != len(g.sizes) {
		return fmt.Errorf("invariant 1: %d acknowledged and %d waiting of %d", g.acked, waiting, g.last)
	}
	if !g.line.idle() && (!open || len(g.queue) == 0) {
		return fmt.Errorf("invariant 2: an append under way, open %v, queue of %d", open, len(g.queue))
	}
	return nil
}
