package call

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
)

// An Oversize is an envelope that was appended when the broker took larger messages than
// it does now. The peer gets a small envelope in its place, unless it has received it before.
type Oversize struct {
	Envelope wire.Envelope // of a frame that is not changed any more
	// NotExecuted: it certainly never reached the peer. Otherwise nobody knows.
	NotExecuted bool
	Size, Limit int // in bytes
}

// Error reads like that of Append: it is ErrTooLarge, with both sizes.
func (o *Oversize) Error() string {
	return fmt.Sprintf("%v: %d bytes, at most %d", ErrTooLarge, o.Size, o.Limit)
}

// SetLimit bounds the payloads of later frames, in bytes.
func (p *Session) SetLimit(bytes int) { p.cfg.MaxPayload = bytes }

// Shrink takes back a Take whose frame is larger than limit, the broker's present bound
// in bytes. Frames that are not sent yet, or are to be sent again, are divided so that
// they fit. Sequences stay the same, so that a peer that has received some of them skips
// those. Envelopes that do not fit alone are removed and returned: results are replaced
// by the answer that they are too large, and others by nothing. With a part of a shard's
// state all other waiting parts are removed, including the last, because the new home
// must not take an incomplete state for the whole.
func (p *Session) Shrink(token uint64, limit int) (out []Oversize) {
	defer p.check()
	p.lent = 0
	p.cfg.MaxPayload = limit
	first, _ := sendingOf(token)
	for i := p.head; i < p.sendAt; i++ {
		if p.frames[i].first == first {
			p.frames[i].sends--
			p.rewindTo(i)
			break
		}
	}
	for i := p.sendAt; i < len(p.frames); i++ {
		if len(p.frames[i].buf) <= limit {
			continue
		}
		parts, over := p.divide(&p.frames[i])
		p.frames = slices.Replace(p.frames, i, i+1, parts...)
		i += len(parts) - 1
		out = append(out, over...)
	}
	for i := range out {
		if out[i].Envelope.Type == wire.TypeInit {
			p.voidState(&out[i].Envelope)
		}
	}
	p.release() // the peer may have handled a part
	return out
}

// divide splits a frame into frames that fit, and returns the envelopes that do not fit alone.
func (p *Session) divide(f *frame) (parts []frame, out []Oversize) {
	p.held -= len(f.body())
	if f.refuses > 0 {
		p.refusals--
	}
	most := min(frameBytes, p.cfg.MaxPayload)
	rest := f.body()
	for seq := f.first; seq <= f.last(); seq++ {
		var e wire.Envelope
		at := rest
		rest, _, _ = wire.NextEnvelope(rest, &e) // this side has encoded it
		encoded := at[:len(at)-len(rest)]
		if room := p.cfg.MaxPayload - wire.MaxFrameHeader; len(encoded) > room {
			o := Oversize{Envelope: e, Size: len(encoded), Limit: room, NotExecuted: f.neverArrived() && seq > p.handledTo}
			if seq > p.handledTo {
				out = append(out, o)
			}
			small := o.instead()
			encoded = wire.AppendEnvelope(nil, &small)
		}
		if n := len(parts); n == 0 || len(parts[n-1].buf)+len(encoded) > most {
			parts = append(parts, frame{
				first: seq, sends: f.sends, bounces: f.bounces, bounced: f.bounced, closed: true, buf: newBuffer(most),
			})
		}
		part := &parts[len(parts)-1]
		part.buf = append(reserve(part.buf, len(encoded)), encoded...)
		part.count++
		p.held += len(encoded)
		p.noteRefusal(part, &e)
	}
	return parts, out
}

// instead returns the replacement of an envelope.
func (o *Oversize) instead() wire.Envelope {
	e := &o.Envelope
	switch {
	case e.Type != wire.TypeReply:
		return wire.Envelope{}
	case e.Code == wire.CodeOK:
		text := fmt.Sprintf("%d bytes of results, at most %d", o.Size, o.Limit)
		return wire.Envelope{Type: e.Type, ID: e.ID, Code: wire.CodeTooLarge, Text: []byte(text)}
	}
	// The kind of error stays, and the beginning of its text.
	return wire.Envelope{Type: e.Type, ID: e.ID, Code: e.Code, Text: e.Text[:min(len(e.Text), o.Limit/2)]}
}

// voidState removes the parts of the shard's state that have not been sent.
func (p *Session) voidState(init *wire.Envelope) {
	for i := p.sendAt; i < len(p.frames); i++ {
		rest := p.frames[i].body()
		for len(rest) > 0 {
			var e wire.Envelope
			at := rest
			rest, _, _ = wire.NextEnvelope(rest, &e)
			if e.Type == wire.TypeInit && e.Shard == init.Shard && e.Epoch == init.Epoch && string(e.Kind) == string(init.Kind) {
				wire.VoidEnvelope(at[:len(at)-len(rest)])
			}
		}
	}
}
