package shard

import (
	"github.com/shardgen/shardgen/internal/nocopy"
	"github.com/shardgen/shardgen/internal/prefetch"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
)

// readAhead are the next envelopes of a frame, parsed before the first of them is
// handled, so that the processor waits for all their cache misses at once, as in a
// runner's prefetch. The memory is the lane's, and used again.
type readAhead struct {
	envelopes  [prefetch.Turns]wire.Envelope
	at, n      int  // the next one, and how many there are
	prefetched byte // keeps the compiler from leaving warmFor's reads out
}

// clear lets go of the frame.
func (r *readAhead) clear() {
	clear(r.envelopes[:r.n])
	r.at, r.n = 0, 0
}

// nextEnvelope returns the next envelope of the frame under way; nil when the frame ends
// or goes on with something else.
func (l *lane) nextEnvelope() (*wire.Envelope, error) {
	r := &l.ahead
	if r.at == r.n {
		if err := l.readOn(); r.n == 0 {
			return nil, err
		}
		if r.n > 1 {
			r.prefetched = l.warmFor(r.envelopes[:r.n])
		}
	}
	r.at++
	return &r.envelopes[r.at-1], nil
}

// readOn parses the next envelopes, up to the frame's end or to bytes that are no
// envelope. That error is returned again when the envelopes before it have been handled.
func (l *lane) readOn() error {
	r := &l.ahead
	before := r.n
	for r.at, r.n = 0, 0; r.n < len(r.envelopes); r.n++ {
		rest, ok, err := wire.NextEnvelope(l.rest, &r.envelopes[r.n])
		if !ok || err != nil {
			clear(r.envelopes[r.n:max(before, r.n+1)]) // what was there before, or parsed in part
			return err
		}
		l.rest = rest
	}
	return nil
}

// warmFor prefetches memory that the handling of the envelopes reads first: the entities
// and the user's structs of calls, and the table entries of this process's answered
// calls. It decides nothing. Its result has no meaning.
func (l *lane) warmFor(envelopes []wire.Envelope) (sum byte) {
	var entities [prefetch.Turns]*region.Entity
	for i := range envelopes {
		switch e := &envelopes[i]; e.Type {
		case wire.TypeCall, wire.TypeTell:
			entities[i] = l.likely(e)
		case wire.TypeReply:
			if c := l.plane.pending.At(e.ID); c != nil {
				sum += c.Touch()
			}
		}
	}
	for _, e := range entities {
		if e != nil {
			e.Busy() // reads its word
		}
	}
	for _, e := range entities {
		if e != nil && e.ID != "" {
			sum += e.ID[0] + prefetch.FirstByte(e)
		}
	}
	return sum
}

// likely is the entity that an envelope is probably for; nil if there is none.
func (l *lane) likely(e *wire.Envelope) *region.Entity {
	k := l.kindOf(e.Kind)
	if k == nil || k.host == nil || len(e.Entity) == 0 {
		return nil
	}
	sh := k.host.shard(e.Shard)
	if sh == nil {
		return nil
	}
	return sh.Core.Peek(region.Hash(nocopy.String(e.Entity)))
}
