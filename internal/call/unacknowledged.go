package call

import (
	"github.com/shardgen/shardgen/internal/wire"
)

// An Unacknowledged is an envelope that the peer never acknowledged.
type Unacknowledged struct {
	Seq      uint64
	Envelope wire.Envelope // its slices are copies
	// NotExecuted reports that it certainly never reached the peer. Otherwise it
	// may have.
	NotExecuted bool
}

// TakeUnacknowledged empties the session, in order of sequence. With bye the peer has
// said goodbye, so envelopes that it had not handled never will be. Without, only
// envelopes that were never published, or bounced each time, are certainly not executed.
func (p *Session) TakeUnacknowledged(bye bool) []Unacknowledged {
	var out []Unacknowledged
	for i := p.head; i < len(p.frames); i++ {
		f := &p.frames[i]
		p.eachEnvelope(f, func(seq uint64, e *wire.Envelope) bool {
			if seq > p.acked {
				out = append(out, Unacknowledged{Seq: seq, Envelope: clone(e), NotExecuted: bye && seq > p.handledTo || f.neverArrived()})
			}
			return true
		})
	}
	p.frames, p.head, p.handled, p.sendAt, p.unacked, p.held, p.refusals = nil, 0, 0, 0, 0, 0, 0
	return out
}

// Find returns a copy of the envelope with that sequence, if it is still held.
func (p *Session) Find(seq uint64) (e wire.Envelope, ok bool) {
	for i := p.head; i < len(p.frames); i++ {
		f := &p.frames[i]
		if f.count == 0 || seq < f.first || seq > f.last() {
			continue
		}
		p.eachEnvelope(f, func(s uint64, got *wire.Envelope) bool {
			if s == seq {
				e, ok = clone(got), true
			}
			return !ok
		})
		return e, ok
	}
	return e, false
}

// Void replaces the envelope with that sequence by a void one, if it certainly never
// reached the peer. It reports whether it did.
func (p *Session) Void(seq uint64) bool {
	for i := p.head; i < len(p.frames); i++ {
		f := &p.frames[i]
		if f.count == 0 || seq < f.first || seq > f.last() || !f.neverArrived() || f.first == p.lent {
			continue
		}
		done := false
		rest := f.body()
		for s := f.first; s <= seq; s++ {
			at := rest
			var e wire.Envelope
			var ok bool
			var err error
			if rest, ok, err = wire.NextEnvelope(rest, &e); !ok || err != nil {
				return false
			}
			if s == seq {
				done = wire.VoidEnvelope(at[:len(at)-len(rest)])
			}
		}
		return done
	}
	return false
}

func (p *Session) eachEnvelope(f *frame, visit func(seq uint64, e *wire.Envelope) bool) {
	var e wire.Envelope
	rest := f.body()
	for seq := f.first; ; seq++ {
		var ok bool
		var err error
		if rest, ok, err = wire.NextEnvelope(rest, &e); !ok || err != nil || !visit(seq, &e) {
			return
		}
	}
}

func clone(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Kind = append([]byte(nil), e.Kind...)
	c.Entity = append([]byte(nil), e.Entity...)
	c.Method = append([]byte(nil), e.Method...)
	c.Payload = append([]byte(nil), e.Payload...)
	c.Text = append([]byte(nil), e.Text...)
	c.Chain = append([]byte(nil), e.Chain...)
	return c
}
