package shard

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/region"
)

// readAhead are the next envelopes of a frame, parsed before the first of them is
// handled, so that the processor can be asked for what all of them need at once: of
// 10,000 entities that are called in no order hardly one is in its cache. The memory is
// the lane's, and used again.
type readAhead struct {
	envelopes [warmTurns]wire.Envelope
	at, n     int  // the next one, and how many there are
	warmth    byte // what was read ahead, so that it is not left out
}

// clear lets go of the frame.
func (r *readAhead) clear() {
	clear(r.envelopes[:r.n])
	r.at, r.n = 0, 0
}

// nextEnvelope is the next envelope of the frame under way; nil when the frame ends, or
// goes on with what is none.
func (l *lane) nextEnvelope() (*wire.Envelope, error) {
	r := &l.ahead
	if r.at == r.n {
		r.at, r.n = 0, 0
		for r.n < len(r.envelopes) {
			rest, ok, err := wire.NextEnvelope(l.rest, &r.envelopes[r.n])
			if !ok || err != nil {
				if r.n == 0 {
					return nil, err
				}
				break // what stands before it comes first
			}
			l.rest = rest
			r.n++
		}
		if r.n > 1 {
			r.warmth = l.warm(r.envelopes[:r.n])
		}
	}
	r.at++
	return &r.envelopes[r.at-1], nil
}

// warm reads what handling the envelopes will read first: the entities and the user's
// structs of calls, and the places of this process's calls that are answered. It decides
// nothing. What is returned means nothing.
func (l *lane) warm(envelopes []wire.Envelope) (sum byte) {
	var entities [warmTurns]*region.Entity
	for i := range envelopes {
		switch e := &envelopes[i]; e.Type {
		case wire.TypeCall, wire.TypeTell:
			entities[i] = l.likely(e)
		case wire.TypeReply:
			if c := l.plane.pending.at(e.ID); c != nil {
				sum += byte(c.id.Load()) + byte(len(c.done))
			}
		}
	}
	for _, e := range entities {
		if e != nil {
			e.Busy()
		}
	}
	for _, e := range entities {
		if e != nil {
			sum += e.ID[0] + firstByte(e)
		}
	}
	return sum
}

// likely is the entity that an envelope is probably for.
func (l *lane) likely(e *wire.Envelope) *region.Entity {
	k := l.kindOf(e.Kind)
	if k == nil || k.host == nil || len(e.Entity) == 0 {
		return nil
	}
	sh := k.host.shard(e.Shard)
	if sh == nil {
		return nil
	}
	return sh.core.Peek(region.Hash(stringOf(e.Entity)))
}
